variable "kubeconfig" {
  description = "The content of the cluster's kubeconfig: the attribute kubeconfig of kind_cluster, or the output of kind get kubeconfig. It may be unknown while planning."
  type        = string
  sensitive   = true

  validation {
    condition     = can(yamldecode(var.kubeconfig).clusters[0].cluster.server)
    error_message = "This is not a kubeconfig. Give the content of one and not its path: the attribute kubeconfig of kind_cluster, or file(\"kind.kubeconfig\")."
  }
}

variable "cluster_set" {
  description = "The cluster set that the cluster belongs to. The default is the hub's, which is the set default."
  type        = string
  default     = null
}

variable "labels" {
  description = "Labels for placements, beside those that the module sets. They take precedence."
  type        = map(string)
  default     = {}
  nullable    = false
}
