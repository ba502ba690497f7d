variable "fleet_dir" {
  description = "Data directory of `muster up`, with the kubeconfigs of the hub and of the clusters."
  type        = string
  default     = "../../.demo"
}

variable "clusters" {
  description = "The clusters. Their names are those of the folders in the data directory."
  type        = set(string)
  default     = ["cluster1", "cluster2", "cluster3"]
}

variable "message" {
  description = "What the add-on says in each cluster."
  type        = string
  default     = "Hello"
}

variable "timeout" {
  description = "How long a rollout may take, and how long a cluster of it."
  type        = object({ rollout = string, cluster = string })
  default     = { rollout = "10m", cluster = "2m" }
}

variable "agent_image" {
  description = "Container image of the agent, for clusters with nodes."
  type        = string
  default     = null
}
