terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

# Where muster up keeps the hub and its clusters.
variable "fleet" {
  type    = string
  default = "fleet"
}

# The provider is configured once, for the hub.
provider "muster" {
  kubeconfig_path = "${var.fleet}/hub/admin.kubeconfig"
  preview         = "clusters" # plans say what a change does in the clusters
}

module "fleet" {
  source = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"

  clusters = {
    for name in ["cluster1", "cluster2"] : name => {
      connection = { kubeconfig_path = "${var.fleet}/clusters/${name}/admin.kubeconfig" }
      labels     = { environment = "production" }
    }
  }
}
