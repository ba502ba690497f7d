variable "clusters" {
  description = <<-EOT
    The clusters of the fleet, a map from names to entries, with these attributes, all optional; `{}` is a cluster that registers itself:

    - `connection`: how Terraform reaches the cluster to install the agent, with the attributes of `cluster_connection` of `muster_klusterlet`: `kubeconfig_path`, `kubeconfig`, or `host` with credentials. Leave it out for a cluster that registers itself: see the output `join_commands`. What concerns the agent has no effect there.
    - `cluster_uid`: the UID of the cluster that has the name, for one that was rebuilt at another address.
    - `labels`, `annotations`, `cluster_set`, `client_id`, `client_configs`, `taints`, `lease_duration_seconds`, `adopt`, `force_conflicts`: the cluster on the hub, as of `muster_managed_cluster`.
    - `gone`: the cluster is gone for good. Set it and apply, then remove the entry: nothing waits for its agent any more.
    - `accept`: whether the hub accepts the cluster. With `false` the agent is installed, and joins once this is `true`.
    - `acceptance`: `approve_csr`, `approve_csr_name`, `requesters`, `adopt` and `force_conflicts` of `muster_cluster_acceptance`.
    - `image`, `args`: the agent's image, in place of `agent_image`, and its arguments.
    - `agent`: how else the agent runs: `namespace`, `image_pull_policy`, `image_pull_secrets`, `labels`, `annotations`, `env` (such as `HTTPS_PROXY`), `node_selector`, `affinity`, `tolerations`, `resources`, `host_network`, `priority_class_name`, `user_access` and `tunnels` of `muster_klusterlet`. It is not mixed with the agents of other clusters.
    - `hub_server`: the URL at which this agent reaches the hub, in place of the variable `hub_server`.
    - `bootstrap`: the bootstrap kubeconfig that the provider makes, as of `muster_klusterlet`: `credential`, `ttl`, `server`, `cluster_ca_certificate`, `version`, `enabled`. It takes precedence over the variable `bootstrap`.
    - `bootstrap_kubeconfig_version`: set it to hand over a bootstrap kubeconfig of your own, from `bootstrap_kubeconfigs`, and raise it to send a new one.
    - `wait`: whether to wait until the cluster has joined. The default is `true`.
    - `keep_works_on_destroy`: remove the agent without waiting for its works to go, for a lost hub.
  EOT
  type        = any
  nullable    = false

  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors(local.clusters_shape, var.clusters))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors(local.clusters_shape, var.clusters)))
  }

  validation {
    condition = alltrue([for name in try(keys(var.clusters), []) : can(regex(local.cluster_name, name))])
    error_message = format(
      "The name of a cluster has up to 63 lower-case letters, digits and hyphens, such as eu-west-paris-1. Not so: %s.",
      join(", ", [for name in try(keys(var.clusters), []) : name if !can(regex(local.cluster_name, name))]),
    )
  }
}

variable "tokens" {
  description = "Bootstrap tokens for clusters that register themselves, by a name of your choice, with the attributes of `muster_bootstrap_token`: `managed_cluster` or `managed_clusters`, or `client_ids`, which bind the token to clusters; `max_clusters`, `cluster_labels`, `allowed_labels`, `ttl` and `description`. They are in the state; the output `tokens` has them."
  type        = any
  default     = {}
  nullable    = false

  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors(local.tokens_shape, var.tokens))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors(local.tokens_shape, var.tokens)))
  }
}

variable "bootstrap" {
  description = "How the bootstrap kubeconfigs of all agents are made, with the attributes of `bootstrap` of `muster_klusterlet`, such as `credential = \"service_account\"` for a hub whose API server takes no bootstrap tokens, as those of most clouds, or `ttl`."
  type        = any
  default     = {}
  nullable    = false

  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors("muster_klusterlet.bootstrap", var.bootstrap))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors("muster_klusterlet.bootstrap", var.bootstrap)))
  }
}

variable "bootstrap_kubeconfigs" {
  description = "Bootstrap kubeconfigs of your own, by cluster, for those with a `bootstrap_kubeconfig_version`. They are in no state and no plan. Other clusters get one that the provider makes when it is needed."
  type        = map(string)
  default     = {}
  ephemeral   = true
}

variable "bootstrap_version" {
  description = "Raise it to give new bootstrap kubeconfigs to all agents. After the hub was rebuilt this is not needed: the plan shows the agents that belong to the previous one, and the apply gives them new kubeconfigs."
  type        = number
  default     = 1

  validation {
    condition     = var.bootstrap_version == null || try(var.bootstrap_version >= 0 && floor(var.bootstrap_version) == var.bootstrap_version, false)
    error_message = "Give a whole number, and raise it by one."
  }
}

variable "hub_server" {
  description = "URL at which agents reach the hub. The default is the one that the hub publishes."
  type        = string
  default     = null

  validation {
    condition     = var.hub_server == null || can(regex("^https://[^/]+", var.hub_server))
    error_message = "Give a URL such as https://hub.example.com:6443."
  }
}

variable "agent_image" {
  description = "Container image of the agent. The default is the one of the provider's version."
  type        = string
  default     = null
}

variable "agent_timeout" {
  description = "How long to wait for the agent of one cluster to get its certificate. The agents are installed in parallel; what depends on the module waits for the slowest of them, at most this long. Raise it where nodes start when the agent needs one."
  type        = string
  default     = "2m"
  nullable    = false

  validation {
    condition     = can(regex("^([0-9]+[hms])+$", var.agent_timeout))
    error_message = "Give a duration such as 90s, 2m or 1h30m."
  }
}

variable "registration_timeout" {
  description = "How long to wait until a cluster whose agent has its certificate is available. A cluster whose agent has none is not waited for. The default is `10m`."
  type        = string
  default     = null

  validation {
    condition     = var.registration_timeout == null || can(regex("^([0-9]+[hms])+$", var.registration_timeout))
    error_message = "Give a duration such as 90s, 10m or 1h30m."
  }
}

variable "acceptance_timeout" {
  description = "How long the acceptance of a cluster may take. On an upstream hub that includes the wait for the agent's certificate request. The default is `10m`."
  type        = string
  default     = null

  validation {
    condition     = var.acceptance_timeout == null || can(regex("^([0-9]+[hms])+$", var.acceptance_timeout))
    error_message = "Give a duration such as 90s, 10m or 1h30m."
  }
}

variable "detach_timeout" {
  description = "How long the removal of an agent, with the wait for its works to go, and that of its cluster from the hub may take. The default is `10m`."
  type        = string
  default     = null

  validation {
    condition     = var.detach_timeout == null || can(regex("^([0-9]+[hms])+$", var.detach_timeout))
    error_message = "Give a duration such as 90s, 10m or 1h30m."
  }
}
