terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

provider "muster" {
  kubeconfig_path = "~/.kube/hub.kubeconfig"
}

variable "message" {
  description = "What the fleet says."
  type        = string
  default     = "Hello"
}

resource "muster_managed_cluster_set" "production" {
  name = "production"
}

resource "muster_managed_cluster_set_binding" "production" {
  namespace   = "default"
  cluster_set = muster_managed_cluster_set.production.name
}

module "fleet" {
  source = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"

  clusters = {
    for name, labels in { paris = { canary = "true" }, rome = {} } : name => {
      connection                = { kubeconfig_path = "~/.kube/${name}.kubeconfig" }
      cluster_set               = muster_managed_cluster_set.production.name
      labels                    = labels
    }
  }
}

module "hello" {
  source = "github.com/muster-fleet/terraform-provider-muster//examples/modules/progressive-rollout?ref=v0.1.0"

  name         = "hello"
  namespace    = muster_managed_cluster_set_binding.production.namespace
  cluster_sets = [muster_managed_cluster_set_binding.production.cluster_set]

  manifests = [yamlencode({
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { name = "hello", namespace = "default" }
    data       = { message = var.message }
  })]

  min_success_time  = "1s"
  progress_deadline = "30s"
  timeout           = "2m"

  # On the first apply: once the clusters have joined.
  depends_on = [module.fleet]
}

output "hello" {
  value = module.hello.progress
}
