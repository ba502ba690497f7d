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

# How the agent runs: behind a proxy, from a registry of your own, on certain nodes.
resource "muster_klusterlet" "lima" {
  cluster_name = "lima"

  cluster_connection = {
    kubeconfig_path = "~/.kube/lima.kubeconfig"
  }

  image               = "registry.example.com/muster:1.0.0"
  image_pull_secrets  = ["registry"]
  env                 = { HTTPS_PROXY = "http://proxy.example.com:3128" }
  node_selector       = { "node-role.kubernetes.io/infra" = "" }
  tolerations         = [{ key = "node-role.kubernetes.io/infra", operator = "Exists" }]
  resources           = { requests = { cpu = "50m", memory = "128Mi" }, limits = { memory = "1Gi" } }
  priority_class_name = "system-cluster-critical"

  affinity = {
    node_affinity = {
      required_during_scheduling_ignored_during_execution = {
        node_selector_terms = [
          { match_expressions = [{ key = "kubernetes.io/arch", operator = "In", values = ["amd64", "arm64"] }] },
        ]
      }
    }
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
