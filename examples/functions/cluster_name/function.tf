variable "arns" {
  type    = set(string)
  default = ["arn:aws:eks:eu-central-1:123456789012:cluster/shop"]
}

resource "muster_managed_cluster" "this" {
  for_each = var.arns

  name        = provider::muster::cluster_name(each.key)
  annotations = { "example.com/arn" = each.key }
}

# A name that is valid stays as it is.
output "paris" {
  value = provider::muster::cluster_name("paris-1")
}
