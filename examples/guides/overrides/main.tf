terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

variable "hub_kubeconfig" {
  description = "Path of a kubeconfig for the hub."
  type        = string
}

provider "muster" {
  kubeconfig_path = var.hub_kubeconfig
}

resource "muster_manifest_work_replica_set" "web" {
  namespace  = "shop"
  name       = "web"
  placements = [{ name = "everywhere" }]

  objects = [
    {
      apiVersion = "v1"
      kind       = "ConfigMap"
      metadata   = { namespace = "shop", name = "web" }
      data = {
        cluster = "{{CLUSTER_NAME}}"
        region  = "{{REGION}}"
        url     = "https://web.{{REGION}}.{{ZONE}}"
      }
    },
    {
      apiVersion = "apps/v1"
      kind       = "Deployment"
      metadata   = { namespace = "shop", name = "web" }
      spec = {
        # Nothing but a placeholder: it becomes the number.
        replicas = "{{REPLICAS}}"
        selector = { matchLabels = { app = "web" } }
        template = {
          metadata = { labels = { app = "web" } }
          spec     = { containers = [{ name = "web", image = "registry.example.com/web:1.4" }] }
        }
      }
    },
  ]

  values = [
    # A label of the managed cluster, a claim of its agent, and an expression.
    { name = "REGION", label = "region" },
    { name = "ZONE", claim = "zone.example.com", default = "example.com" },
    {
      name       = "REPLICAS"
      expression = "managedCluster.metadata.labels[?'tier'].orValue('') == 'gold' ? 5 : 2"
    },
  ]

  overrides = [
    {
      label_selector = { match_labels = { env = "test" } }
      object         = { kind = "Deployment", name = "web" }
      type           = "Strategic"
      patch = jsonencode({
        spec = { template = { spec = { containers = [{ name = "web", image = "registry.example.com/web:next" }] } } }
      })
    },
  ]
}
