# terraform apply -invoke=action.muster_pause_rollout.web
action "muster_pause_rollout" "web" {
  config {
    namespace = "shop"
    name      = "web"
  }
}
