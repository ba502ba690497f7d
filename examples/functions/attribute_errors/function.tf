# A module's variable with attributes of resources. A misspelt one is an error that says
# where it is: sites["paris"].agent.tolerations[0].kye would be dropped without a word.
variable "sites" {
  description = "The sites, by name: connection, and image and tolerations of the agent."
  type        = any

  validation {
    condition     = length(provider::muster::attribute_errors(local.sites_shape, var.sites)) == 0
    error_message = join("\n", provider::muster::attribute_errors(local.sites_shape, var.sites))
  }
}

locals {
  sites_shape = {
    "*" = {
      connection = "muster_klusterlet.cluster_connection"
      agent = {
        image       = "muster_klusterlet.image"
        tolerations = "muster_klusterlet.tolerations"
      }
    }
  }
}
