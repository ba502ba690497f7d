terraform {
  required_version = ">= 1.11"
  required_providers {
    kind   = { source = "tehcyx/kind" }
    muster = { source = "muster-fleet/muster", version = "~> 0.1" }
  }
}

provider "kind" {}

provider "muster" {
  kubeconfig_path = "~/.kube/hub.kubeconfig"
}

variable "clusters" {
  description = "The names of the kind clusters to create."
  type        = set(string)
  default     = ["kind1", "kind2"]
}

# The address at which pods reach the hub. 127.0.0.1 is the pod itself there.
variable "hub_server" {
  description = "URL of the hub for agents, such as https://172.18.0.1:6443."
  type        = string
}

resource "kind_cluster" "this" {
  for_each = var.clusters

  name           = each.key
  wait_for_ready = true
}

module "kind" {
  source   = "github.com/muster-fleet/terraform-provider-muster//examples/modules/cluster-on-kind?ref=v0.1.0"
  for_each = kind_cluster.this

  kubeconfig = each.value.kubeconfig
}

module "fleet" {
  source     = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"
  clusters   = { for name, cluster in module.kind : name => cluster.cluster }
  hub_server = var.hub_server
}
