variable "clusters" {
  description = "The clusters of the fleet by name. The connection is how Terraform reaches the cluster to install the agent: kubeconfig_path, kubeconfig, or host with its credentials."
  type = map(object({
    connection = object({
      kubeconfig_path        = optional(string)
      kubeconfig             = optional(string)
      context                = optional(string)
      host                   = optional(string)
      cluster_ca_certificate = optional(string)
      token                  = optional(string)
      exec = optional(object({
        api_version = string
        command     = string
        args        = optional(list(string))
        env         = optional(map(string))
      }))
    })
    cluster_set = optional(string)
    labels      = optional(map(string), {})
  }))
}

variable "hub_server" {
  description = "URL at which agents reach the hub. The default is the one that the hub publishes."
  type        = string
  default     = null
}

variable "agent_image" {
  description = "Container image of the agent. The default is the one of the provider's version."
  type        = string
  default     = null
}

variable "bootstrap_version" {
  description = "Raise it to give new bootstrap kubeconfigs to the agents, for example after the hub has moved."
  type        = number
  default     = 1
}

variable "agent_timeout" {
  description = "How long to wait for the agent of one cluster to get its certificate. The agents are installed in parallel; what depends on the module waits for the slowest of them, at most this long."
  type        = string
  default     = "2m"
}
