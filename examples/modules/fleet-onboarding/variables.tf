variable "clusters" {
  description = <<-EOT
    The clusters of the fleet by name:
    - connection: how Terraform reaches the cluster to install the agent: kubeconfig_path, kubeconfig, or host with its credentials. Leave it out for a cluster that registers itself: see the output join_commands.
    - cluster_set, labels, annotations: the cluster on the hub. adopt takes over a record that exists and differs.
    - client_configs: addresses of the cluster's API server for users of logical clouds and for tools, with the authorities that vouch for it.
    - accept: whether the hub accepts the cluster. With false the agent is installed, and joins once this is true.
    - image, args: the agent, in place of agent_image.
    - agent: how else the agent of this cluster runs, by the attributes of muster_klusterlet: image_pull_secrets, env (such as HTTPS_PROXY), tolerations, node_selector, resources, and so on. It is not mixed with the agents of other clusters.
    - hub_server: the URL at which this agent reaches the hub, in place of the variable hub_server.
    - bootstrap_kubeconfig_version: set it to hand over a bootstrap kubeconfig of your own, from bootstrap_kubeconfigs, and raise it to send a new one.
    - keep_works_on_destroy: remove the agent without waiting for its works to go, for a lost hub.
  EOT
  type = map(object({
    connection = optional(object({
      kubeconfig_path        = optional(string)
      kubeconfig             = optional(string)
      context                = optional(string)
      host                   = optional(string)
      cluster_ca_certificate = optional(string)
      tls_server_name        = optional(string)
      insecure               = optional(bool)
      proxy_url              = optional(string)
      token                  = optional(string)
      client_certificate     = optional(string)
      client_key             = optional(string)
      exec = optional(object({
        api_version = string
        command     = string
        args        = optional(list(string))
        env         = optional(map(string))
      }))
    }))
    cluster_set = optional(string)
    labels      = optional(map(string), {})
    annotations = optional(map(string))
    adopt       = optional(bool)
    client_configs = optional(list(object({
      url       = string
      ca_bundle = optional(string)
    })))
    accept = optional(bool, true)
    image  = optional(string)
    args   = optional(list(string))
    agent = optional(object({
      image_pull_policy   = optional(string)
      image_pull_secrets  = optional(list(string))
      labels              = optional(map(string))
      annotations         = optional(map(string))
      env                 = optional(map(string))
      node_selector       = optional(map(string))
      host_network        = optional(bool)
      priority_class_name = optional(string)
      user_access         = optional(bool)
      tolerations = optional(list(object({
        key                = optional(string)
        operator           = optional(string)
        value              = optional(string)
        effect             = optional(string)
        toleration_seconds = optional(number)
      })))
      resources = optional(object({
        requests = optional(map(string))
        limits   = optional(map(string))
      }))
    }), {})
    hub_server                   = optional(string)
    bootstrap_kubeconfig_version = optional(number)
    keep_works_on_destroy        = optional(bool, false)
  }))
}

variable "bootstrap_kubeconfigs" {
  description = "Bootstrap kubeconfigs of your own, by cluster, for those with a bootstrap_kubeconfig_version. They are in no state and no plan. Other clusters get one that the provider makes when it is needed."
  type        = map(string)
  default     = {}
  ephemeral   = true
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
  description = "Raise it to give new bootstrap kubeconfigs to all agents. After the hub was rebuilt this is not needed: the plan shows the agents that belong to the previous one, and the apply gives them new kubeconfigs."
  type        = number
  default     = 1
}

variable "agent_timeout" {
  description = "How long to wait for the agent of one cluster to get its certificate. The agents are installed in parallel; what depends on the module waits for the slowest of them, at most this long."
  type        = string
  default     = "2m"
}
