terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

# The hub. Managed clusters need no provider of their own: each is an argument of
# muster_klusterlet.
provider "muster" {
  kubeconfig_path = "~/.kube/hub.kubeconfig"
}

# A hub in a managed Kubernetes cluster, with credentials from a program.
provider "muster" {
  alias                  = "cloud"
  host                   = "https://hub.example.com:6443"
  cluster_ca_certificate = file("hub-ca.crt")

  exec = {
    api_version = "client.authentication.k8s.io/v1"
    command     = "aws"
    args        = ["eks", "get-token", "--cluster-name", "hub"]
  }
}

# The hub of the cluster that Terraform runs in, for example in a CI job's pod.
provider "muster" {
  alias      = "here"
  in_cluster = true
}

# As the provider kubernetes is configured: several files, one context, and an
# identity to act as.
provider "muster" {
  alias          = "deployer"
  config_paths   = ["~/.kube/clusters", "~/.kube/users"]
  config_context = "hub"
  impersonate    = { user = "system:serviceaccount:ci:deployer" }
}
