variable "endpoint" {
  description = "The address of the control plane: the attribute endpoint of google_container_cluster, or its DNS endpoint. It may be unknown while planning."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z.:\\[\\]-]+$", var.endpoint))
    error_message = "Give an address without https://, such as the attribute endpoint of google_container_cluster."
  }
}

variable "certificate_authority" {
  description = "The certificates of the control plane's authority in base64: master_auth[0].cluster_ca_certificate of google_container_cluster. Leave it out for the DNS endpoint, whose certificate is a public one."
  type        = string
  default     = null

  validation {
    condition     = var.certificate_authority == null || can(regex("-----BEGIN CERTIFICATE-----", base64decode(var.certificate_authority)))
    error_message = "This is not a certificate in base64. Use master_auth[0].cluster_ca_certificate of google_container_cluster, without base64decode."
  }
}

variable "location" {
  description = "The region or zone of the cluster. Its region becomes the label region."
  type        = string
  default     = null

  validation {
    condition     = var.location == null || can(regex("^[a-z]+-[a-z]+[0-9]+(-[a-z])?$", var.location))
    error_message = "Give a region such as europe-west9, or a zone such as europe-west9-a."
  }
}

variable "cluster_set" {
  description = "The cluster set that the cluster belongs to. The default is the hub's, which is the set default."
  type        = string
  default     = null
}

variable "labels" {
  description = "Labels for placements, beside those that the module sets. They take precedence."
  type        = map(string)
  default     = {}
  nullable    = false
}
