# An agent that reads metrics in its cluster and writes them to its namespace on the
# hub, and a job that cleans up when the add-on is removed.
resource "muster_addon_template" "metrics" {
  name       = "metrics-v1"
  addon_name = "metrics"

  objects = [
    {
      apiVersion = "v1"
      kind       = "ServiceAccount"
      metadata   = { name = "metrics", namespace = "open-cluster-management-agent-addon" }
    },
    {
      apiVersion = "apps/v1"
      kind       = "Deployment"
      metadata   = { name = "metrics", namespace = "open-cluster-management-agent-addon" }
      spec = {
        replicas = 1
        selector = { matchLabels = { app = "metrics" } }
        template = {
          metadata = { labels = { app = "metrics" } }
          spec = {
            serviceAccountName = "metrics"
            containers = [{
              name  = "agent"
              image = "quay.io/example/metrics:{{IMAGE_TAG}}"
              args  = ["--cluster={{CLUSTER_NAME}}", "--hub-kubeconfig={{HUB_KUBECONFIG}}"]
            }]
          }
        }
      }
    },
    {
      apiVersion = "batch/v1"
      kind       = "Job"
      metadata = {
        name        = "metrics-cleanup"
        namespace   = "open-cluster-management-agent-addon"
        annotations = { "addon.open-cluster-management.io/addon-pre-delete" = "" }
      }
      spec = {
        template = {
          spec = {
            restartPolicy = "Never"
            containers    = [{ name = "cleanup", image = "quay.io/example/metrics:{{IMAGE_TAG}}", args = ["cleanup"] }]
          }
        }
      }
    },
  ]

  registration = [{
    kube_client = {
      hub_permissions = [{
        current_cluster = { cluster_role_name = "metrics-writer" }
      }]
    }
  }]
}

# Where the variable IMAGE_TAG comes from.
resource "muster_addon_deployment_config" "metrics" {
  namespace            = "default"
  name                 = "metrics"
  customized_variables = { IMAGE_TAG = "1.4.2" }
}
