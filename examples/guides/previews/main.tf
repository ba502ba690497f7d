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

variable "replicas" {
  type    = number
  default = 2
}

provider "muster" {
  kubeconfig_path = var.hub_kubeconfig
  # For all works and replica sets that don't set it themselves.
  preview = "clusters"
}

resource "muster_manifest_work" "web" {
  managed_cluster = "paris"
  name            = "web"
  # What the cluster would refuse is not planned.
  preview = "clusters-enforced"

  objects = [{
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata   = { namespace = "shop", name = "web" }
    spec = {
      replicas = var.replicas
      selector = { matchLabels = { app = "web" } }
      template = {
        metadata = { labels = { app = "web" } }
        spec     = { containers = [{ name = "web", image = "registry.example.com/web:1.4" }] }
      }
    }
  }]
}
