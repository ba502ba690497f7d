resource "muster_manifest_work" "web" {
  managed_cluster = "paris"
  name            = "web"
  manifests       = [file("${path.module}/web.yaml")]
}

# The quota is raised by another configuration, whose revision is known here. When
# it has changed, the agent tries the work again at once.
resource "terraform_data" "quota" {
  input = var.quota_revision

  lifecycle {
    action_trigger {
      events  = [after_update]
      actions = [action.muster_replay_work.web]
    }
  }
}

action "muster_replay_work" "web" {
  config {
    managed_cluster = muster_manifest_work.web.managed_cluster
    name            = muster_manifest_work.web.name
  }
}

variable "quota_revision" {
  type    = string
  default = "1"
}
