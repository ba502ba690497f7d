# terraform apply -invoke=action.muster_resume_rollout.web
action "muster_resume_rollout" "web" {
  config {
    namespace  = "shop"
    name       = "web"
    rolled_out = true
    timeout    = "1h"
  }
}
