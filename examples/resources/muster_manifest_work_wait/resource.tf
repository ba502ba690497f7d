resource "muster_manifest_work" "web" {
  managed_cluster = "paris"
  name            = "web"
  manifests       = [file("${path.module}/web.yaml")]
}

# Fails the run when the agent can't apply the work, and waits again for each change
# of it.
resource "muster_manifest_work_wait" "web" {
  managed_cluster = muster_manifest_work.web.managed_cluster
  name            = muster_manifest_work.web.name
  generation      = muster_manifest_work.web.generation
  conditions      = ["Applied", "Available"]

  timeouts {
    create = "5m"
    update = "5m"
  }
}
