terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

# Ephemeral: in no state and in no plan. It comes from the environment
# (TF_VAR_password) or from an ephemeral resource of a secret store.
variable "password" {
  description = "The password of the shop's database."
  type        = string
  sensitive   = true
  ephemeral   = true
}

# Terraform can't compare a value that it does not keep. It compares this.
variable "password_version" {
  description = "Raise it when the password has changed."
  type        = number
  default     = 1
}

variable "cluster" {
  type    = string
  default = "paris"
}

resource "muster_manifest_work" "shop" {
  managed_cluster = var.cluster
  name            = "shop"

  # In the state, and shown by the plan.
  objects = [{
    apiVersion = "v1"
    kind       = "Namespace"
    metadata   = { name = "shop" }
  }]

  # Only on the hub and in the cluster.
  manifests_wo = [yamlencode({
    apiVersion = "v1"
    kind       = "Secret"
    metadata   = { name = "database", namespace = "shop" }
    stringData = { password = var.password }
  })]
  manifests_wo_version = var.password_version

  wait = { conditions = ["Applied", "Available"] }
}
