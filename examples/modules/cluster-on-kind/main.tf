# How Terraform reaches a kind cluster, existing or new, to install the agent. kind has
# no program that makes credentials: its kubeconfig holds an administrator's key.

locals {
  connection = {
    kubeconfig = var.kubeconfig
  }

  labels = tomap(merge({ cloud = "kind" }, var.labels))
}
