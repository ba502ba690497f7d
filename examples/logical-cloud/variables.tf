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

variable "user" {
  description = "The user of the hub that may edit, by the name that `kubectl auth whoami` prints there."
  type        = string
  default     = "jo@example.com"
}

variable "key_policy" {
  description = "UserHeld, so that the key stays with the user, or HubMade as in EMCO's DCM."
  type        = string
  default     = "UserHeld"
}

variable "agent_image" {
  description = "Container image of the agent, for clusters with nodes."
  type        = string
  default     = null
}
