resource "muster_manifest_work" "web" {
  managed_cluster = "paris"
  name            = "web"

  # As HCL. YAML goes into manifests: [file("web.yaml")].
  objects = [
    { apiVersion = "v1", kind = "Namespace", metadata = { name = "web" } },
    {
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
    },
  ]

  # Never in the plan or the state. Another version sends it again.
  manifests_wo = [yamlencode({
    apiVersion = "v1"
    kind       = "Secret"
    metadata   = { name = "login", namespace = "web" }
    stringData = { password = var.password }
  })]
  manifests_wo_version = 1

  # Only the fields of the manifest; other managers keep theirs.
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

  # Terraform continues once the objects are in the cluster.
  wait = { conditions = ["Applied", "Available"] }
}

variable "password" {
  type      = string
  sensitive = true
  ephemeral = true
}

# What the agent reports, by object.
output "web" {
  value = { for f in muster_manifest_work.web.feedback : "${f.kind} ${f.name}" => f.values }
}
