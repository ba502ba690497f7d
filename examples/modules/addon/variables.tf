variable "name" {
  description = "Name of the add-on. Those of its templates begin with it."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$", var.name))
    error_message = "The name has up to 42 lower-case letters, digits and hyphens, such as logger."
  }
}

variable "display_name" {
  description = "Name of the add-on for people."
  type        = string
  default     = null
}

variable "description" {
  description = "What the add-on is for."
  type        = string
  default     = null
}

variable "placement" {
  description = "The placement that selects the clusters: refer to its resource, so that it is there first. The add-on is removed from all other clusters."
  type        = any

  validation {
    condition     = can([var.placement.namespace, var.placement.name])
    error_message = "A placement has a namespace and a name: { namespace = \"fleet\", name = \"europe\" }."
  }

  # Terraform would drop attributes that it does not know without a word.
  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors(local.placement_shape, var.placement))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors(local.placement_shape, var.placement)))
  }
}

variable "manifests" {
  description = "Objects as YAML or JSON, for example from file. They may have variables such as {{CLUSTER_NAME}}."
  type        = list(string)
  default     = null

  validation {
    condition     = try(length(var.manifests), 0) > 0 || try(length(var.objects), 0) > 0
    error_message = "There is nothing to install: give at least one manifest, or objects."
  }
}

variable "objects" {
  description = "Objects as HCL, which a plan shows: a list of objects such as { apiVersion = \"v1\", kind = \"Namespace\", metadata = { name = \"shop\" } }. With manifests, too, those come first."
  type        = any
  default     = null
}

variable "manifest_configs" {
  description = "How some of the objects are written and what is reported of them: manifest_configs of muster_addon_template."
  type        = any
  default     = null

  # Terraform would drop attributes that it does not know without a word.
  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors("muster_addon_template.manifest_configs", var.manifest_configs))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors("muster_addon_template.manifest_configs", var.manifest_configs)))
  }
}

variable "registration" {
  description = "Credentials that the agent gets: registration of muster_addon_template."
  type        = any
  default     = null

  # Terraform would drop attributes that it does not know without a word.
  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors("muster_addon_template.registration", var.registration))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors("muster_addon_template.registration", var.registration)))
  }
}

variable "revision" {
  description = "End of the template's name, such as v2. The default is made from the objects. Give one where objects are only known after apply, and change it with them."
  type        = string
  default     = null

  validation {
    condition     = var.revision == null || can(regex("^[a-z0-9]([a-z0-9.-]{0,18}[a-z0-9])?$", var.revision))
    error_message = "A revision has up to 20 lower-case letters, digits, hyphens and dots, such as v2."
  }
}

variable "variables" {
  description = "Values of the variables in the objects, by name: LEVEL = \"info\" is put in place of {{LEVEL}}."
  type        = map(string)
  default     = null
}

variable "values" {
  description = "What differs from cluster to cluster: values of muster_addon_template."
  type        = any
  default     = null

  # Terraform would drop attributes that it does not know without a word.
  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors("muster_addon_template.values", var.values))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors("muster_addon_template.values", var.values)))
  }
}

variable "overrides" {
  description = "Patches of objects in some clusters: overrides of muster_addon_template."
  type        = any
  default     = null

  # Terraform would drop attributes that it does not know without a word.
  validation {
    condition     = length(nonsensitive(provider::muster::attribute_errors("muster_addon_template.overrides", var.overrides))) == 0
    error_message = join("\n", nonsensitive(provider::muster::attribute_errors("muster_addon_template.overrides", var.overrides)))
  }
}

variable "install_namespace" {
  description = "Namespace in the clusters that takes the place of every namespace in the objects. The default leaves them as they are."
  type        = string
  default     = ""
  nullable    = false
}

variable "canary_groups" {
  description = "Names of the placement's decision groups that go first, one after the other. All of their clusters have to succeed."
  type        = list(string)
  default     = []
  nullable    = false
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

variable "gates" {
  description = <<-EOT
    Decision groups before which the rollout stops until somebody approves (`muster rollout approve`, or the action `muster_approve_rollout`), or until a window of time opens. A group without a name is called by its index. With a gate to approve, set `wait` to false, or give the approver time within `timeout`. Windows: `{ group = "stores", window = { days = ["Sat", "Sun"], from = "22:00", to = "04:00", time_zone = "Europe/Berlin" } }`.
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
  description = "Whether the apply ends only when the add-on has its present objects, and is available, in all clusters, and fails when that stops."
  type        = bool
  default     = true
  nullable    = false
}

variable "timeout" {
  description = "How long to wait for the whole rollout, and for the removal."
  type        = string
  default     = "1h"
  nullable    = false

  validation {
    condition     = can(regex("^([0-9]+[hms])+$", var.timeout))
    error_message = "Give a duration such as 30m or 2h."
  }
}
