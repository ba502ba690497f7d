variable "name" {
  description = "The cluster's name in EKS."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.name))
    error_message = "An EKS cluster's name has 1 to 100 letters, digits, hyphens and underscores."
  }
}

variable "endpoint" {
  description = "The URL of the API server: the attribute endpoint of aws_eks_cluster. It may be unknown while planning."
  type        = string

  validation {
    condition     = startswith(var.endpoint, "https://")
    error_message = "The endpoint begins with https://. Use the attribute endpoint of aws_eks_cluster."
  }
}

variable "certificate_authority" {
  description = "The certificates of the API server's authority in base64: certificate_authority[0].data of aws_eks_cluster."
  type        = string

  validation {
    condition     = can(regex("-----BEGIN CERTIFICATE-----", base64decode(var.certificate_authority)))
    error_message = "This is not a certificate in base64. Use certificate_authority[0].data of aws_eks_cluster, without base64decode."
  }
}

variable "region" {
  description = "The region of the cluster. The default is that of the AWS command line. It becomes the label region."
  type        = string
  default     = null
}

variable "profile" {
  description = "The profile of the AWS command line that has access to the cluster."
  type        = string
  default     = null
}

variable "role_arn" {
  description = "The role to assume for access to the cluster."
  type        = string
  default     = null

  validation {
    condition     = var.role_arn == null || can(regex("^arn:[^:]+:iam::[0-9]{12}:role/.+$", var.role_arn))
    error_message = "Give the ARN of a role, such as arn:aws:iam::123456789012:role/fleet."
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
