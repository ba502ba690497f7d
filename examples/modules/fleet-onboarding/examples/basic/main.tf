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

module "fleet" {
  source = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"

  clusters = {
    paris = {
      connection  = { kubeconfig_path = "paris.kubeconfig" }
      cluster_set = "production"
      labels      = { region = "eu" }
    }
  }
}
