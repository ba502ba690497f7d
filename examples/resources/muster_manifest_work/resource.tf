resource "muster_manifest_work" "web" {
  managed_cluster = "paris"
  name            = "web"

  manifests = [
    yamlencode({
      apiVersion = "v1"
      kind       = "Namespace"
      metadata   = { name = "web" }
    }),
    yamlencode({
      apiVersion = "apps/v1"
      kind       = "Deployment"
      metadata   = { name = "web", namespace = "web" }
      spec = {
        replicas = 3
        selector = { matchLabels = { app = "web" } }
        template = {
          metadata = { labels = { app = "web" } }
          spec     = { containers = [{ name = "web", image = "nginx:1.29" }] }
        }
      }
    }),
  ]

  # Other managers keep their fields; those of the manifest are ours.
  manifest_configs = [{
    resource_identifier = {
      group     = "apps"
      resource  = "deployments"
      namespace = "web"
      name      = "web"
    }
    update_strategy = {
      type = "ServerSideApply"
      server_side_apply = {
        force = true
      }
    }
    feedback_rules = [{ type = "WellKnownStatus" }]
  }]

  # Terraform goes on once the objects are in the cluster.
  wait = { conditions = ["Applied", "Available"] }
}
