variable "fleet_dir" {
  description = "Data directory of `muster up`, with the kubeconfigs of the hub and of the clusters."
  type        = string
  default     = "../../.demo"
}

variable "clusters" {
  description = "The clusters to register, as of the module fleet-onboarding. Their names are those of the folders in the data directory."
  type        = any
  default = {
    cluster1 = {}
    cluster2 = {}
    cluster3 = {}
  }
}

variable "agent_image" {
  description = "Container image of the agent, for clusters with nodes. The default is the one of the provider's version, which muster up --driver kind puts into the nodes."
  type        = string
  default     = null
}
