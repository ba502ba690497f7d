variable "name" {
  description = "Name of the replica set and of its placement."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$", var.name))
    error_message = "The name has up to 42 lower-case letters, digits and hyphens, such as web."
  }
}

variable "namespace" {
  description = "Namespace on the hub. The cluster sets have to be bound to it: see muster_managed_cluster_set_binding."
  type        = string
  default     = "default"
  nullable    = false
}

variable "manifests" {
  description = "Objects as YAML or JSON, for example from file."
  type        = list(string)
  default     = null

  validation {
    condition     = try(length(var.manifests), 0) > 0 || try(length(var.objects), 0) > 0
    error_message = "There is nothing to roll out: give at least one manifest, or objects."
  }
}

variable "objects" {
  description = "Objects as HCL, which a plan shows: a list of objects such as { apiVersion = \"v1\", kind = \"Namespace\", metadata = { name = \"shop\" } }. With manifests, too, those come first."
  type        = any
  default     = null
}

variable "manifest_configs" {
  description = "How some of the objects are written and what is reported of them: manifest_configs of muster_manifest_work_replica_set. Agents of upstream hubs need condition_rules with the condition Progressing."
  type        = any
  default     = null

  # Terraform would drop attributes that it does not know without a word.
  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors("muster_manifest_work_replica_set.manifest_configs", var.manifest_configs))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors("muster_manifest_work_replica_set.manifest_configs", var.manifest_configs)))
  }
}

variable "cluster_sets" {
  description = "The cluster sets to select from. The default is all that are bound to the namespace."
  type        = set(string)
  default     = null
}

variable "cluster_labels" {
  description = "Labels that a cluster needs to be selected. The default is every cluster of the sets."
  type        = map(string)
  default     = null
}

variable "canary_labels" {
  description = "Labels of the clusters that go first, among those that are selected. All of them have to succeed. Null is a rollout without canaries."
  type        = map(string)
  default     = { canary = "true" }

  validation {
    condition     = var.canary_labels == null || length(coalesce(var.canary_labels, {})) > 0
    error_message = "Without any label every cluster would be a canary. Give at least one, or null for a rollout without canaries."
  }
}

variable "max_concurrency" {
  description = "How many clusters beside the canaries may be in progress at the same time: a number such as \"3\", or a percentage such as \"25%\", rounded up."
  type        = string
  default     = "25%"
  nullable    = false

  validation {
    condition     = can(regex("^([1-9][0-9]*|([1-9][0-9]?|100)%)$", var.max_concurrency))
    error_message = "Give a number such as \"3\", or a percentage such as \"25%\"."
  }
}

variable "max_failures" {
  description = "How many clusters beside the canaries may fail before the rollout stops: a number such as \"3\", or a percentage such as \"10%\", rounded up. A number greater than that of the clusters counts as 0."
  type        = string
  default     = "0"
  nullable    = false

  validation {
    condition     = can(regex("^([0-9]+|([0-9]{1,2}|100)%)$", var.max_failures))
    error_message = "Give a number such as \"3\", or a percentage such as \"10%\"."
  }
}

variable "min_success_time" {
  description = "How long a cluster has to stay successful before the next may start in its place."
  type        = string
  default     = "2m"
  nullable    = false

  validation {
    condition     = can(regex("^([0-9]+[hms])+$", var.min_success_time))
    error_message = "Give a duration such as 90s, 2m or 1h30m."
  }
}

variable "progress_deadline" {
  description = "How long a cluster may take before it counts as failed."
  type        = string
  default     = "10m"
  nullable    = false

  validation {
    condition     = can(regex("^([0-9]+[hms])+$", var.progress_deadline))
    error_message = "Give a duration such as 90s, 10m or 1h30m. A rollout without a deadline could wait for one cluster for ever."
  }
}

variable "values" {
  description = "What differs from cluster to cluster: values of muster_manifest_work_replica_set."
  type        = any
  default     = null

  # Terraform would drop attributes that it does not know without a word.
  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors("muster_manifest_work_replica_set.values", var.values))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors("muster_manifest_work_replica_set.values", var.values)))
  }
}

variable "overrides" {
  description = "Patches of objects in some clusters: overrides of muster_manifest_work_replica_set."
  type        = any
  default     = null

  # Terraform would drop attributes that it does not know without a word.
  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors("muster_manifest_work_replica_set.overrides", var.overrides))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors("muster_manifest_work_replica_set.overrides", var.overrides)))
  }
}

variable "gates" {
  description = <<-EOT
    Decision groups before which the rollout stops until somebody approves (`muster rollout approve`, or the action `muster_approve_rollout`), or until a window of time opens. Clusters that are not among the canaries are in a group without a name, which is called by its index: `[{ group = "1" }]` stops after the canaries. With a gate to approve, set `wait` to false, or give the approver time within `timeout`. Windows: `{ group = "1", window = { days = ["Sat", "Sun"], from = "22:00", to = "04:00", time_zone = "Europe/Berlin" } }`.
  EOT
  type = list(object({
    group = string
    window = optional(object({
      days      = optional(list(string))
      from      = string
      to        = string
      time_zone = optional(string)
    }))
  }))
  default  = []
  nullable = false
}

variable "wait" {
  description = "Whether the apply ends only when the rollout has succeeded everywhere, and fails when it stops."
  type        = bool
  default     = true
  nullable    = false
}

variable "timeout" {
  description = "How long to wait for the whole rollout."
  type        = string
  default     = "1h"
  nullable    = false

  validation {
    condition     = can(regex("^([0-9]+[hms])+$", var.timeout))
    error_message = "Give a duration such as 30m or 2h."
  }
}
