variable "team" {
  description = "Name of the team: of its cluster set and its namespace on the hub."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", var.team))
    error_message = "The team is the name of a namespace: lower-case letters, digits and dashes."
  }
}

variable "stages" {
  description = "The team's stages. Clusters of the set have theirs in the label stage."
  type        = set(string)
  default     = ["test", "production"]
}
