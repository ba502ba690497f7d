# terraform apply -invoke='action.muster_rotate_certificate.this["paris"]'
action "muster_rotate_certificate" "this" {
  for_each = toset(["paris", "lyon"])

  config {
    managed_cluster = each.key
  }
}
