# An add-on whose agent differs from cluster to cluster.
resource "muster_addon_template" "logger" {
  name       = "logger-v1"
  addon_name = "logger"

  objects = [{
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata   = { namespace = "logging", name = "logger" }
    spec = {
      replicas = "{{LOGGERS}}"
      selector = { matchLabels = { app = "logger" } }
      template = {
        metadata = { labels = { app = "logger" } }
        spec = {
          containers = [{
            name  = "logger"
            image = "registry.example.com/logger:2.0"
            # LEVEL is a variable of the deployment configuration, if there is one.
            args = ["--cluster={{CLUSTER_NAME}}", "--to=https://logs.{{REGION}}.example.com", "--level={{LEVEL}}"]
          }]
        }
      }
    }
  }]

  values = [
    { name = "REGION", label = "region" },
    { name = "LEVEL", label = "log-level", default = "info" },
    { name = "LOGGERS", expression = "managedCluster.metadata.labels[?'tier'].orValue('') == 'gold' ? 2 : 1" },
  ]

  overrides = [
    {
      label_selector = { match_labels = { env = "test" } }
      object         = { kind = "Deployment", name = "logger" }
      type           = "JSON"
      patch          = jsonencode([{ op = "add", path = "/spec/template/spec/containers/0/args/-", value = "--debug" }])
    },
  ]
}

resource "muster_addon" "logger" {
  name       = "logger"
  template   = muster_addon_template.logger.name
  placements = [{ namespace = "shop", name = "everywhere" }]
}
