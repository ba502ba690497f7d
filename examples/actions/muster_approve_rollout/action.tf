# terraform apply -invoke=action.muster_approve_rollout.web
action "muster_approve_rollout" "web" {
  config {
    namespace = "shop"
    name      = "web"
    group     = "production"
  }
}
