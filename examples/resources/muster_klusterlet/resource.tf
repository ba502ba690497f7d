# The provider makes the bootstrap kubeconfig itself, when the agent needs one, and
# revokes it when the agent has its certificate.
resource "muster_klusterlet" "paris" {
  cluster_name = "paris"

  cluster_connection = {
    kubeconfig_path = "~/.kube/paris.kubeconfig"
  }
}

# Where agents reach the hub by another address. Raise the version to send a new one.
resource "muster_klusterlet" "rome" {
  cluster_name = "rome"

  cluster_connection = {
    kubeconfig_path = "~/.kube/rome.kubeconfig"
  }

  bootstrap = {
    server  = "https://hub.example.com:6443"
    ttl     = "30m"
    version = 1
  }
}

# A bootstrap kubeconfig of your own: neither in the state nor in the plan.
variable "oslo_bootstrap_kubeconfig" {
  type      = string
  ephemeral = true
}

resource "muster_klusterlet" "oslo" {
  cluster_name = "oslo"

  cluster_connection = {
    kubeconfig_path = "~/.kube/oslo.kubeconfig"
  }

  bootstrap_kubeconfig_wo         = var.oslo_bootstrap_kubeconfig
  bootstrap_kubeconfig_wo_version = 1
}
