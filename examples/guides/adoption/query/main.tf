terraform {
  required_version = ">= 1.14"
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
