# terraform apply -invoke=action.muster_wait_joined.production
action "muster_wait_joined" "production" {
  config {
    cluster_set    = "production"
    label_selector = "region in (eu,us)"
    minimum        = 3
    timeout        = "15m"
  }
}
