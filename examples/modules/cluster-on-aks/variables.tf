variable "host" {
  description = "The URL of the API server: kube_config[0].host of azurerm_kubernetes_cluster. It may be unknown while planning."
  type        = string

  validation {
    condition     = startswith(var.host, "https://")
    error_message = "The host begins with https://. Use kube_config[0].host of azurerm_kubernetes_cluster."
  }
}

variable "certificate_authority" {
  description = "The certificates of the API server's authority in base64: kube_config[0].cluster_ca_certificate of azurerm_kubernetes_cluster."
  type        = string

  validation {
    condition     = can(regex("-----BEGIN CERTIFICATE-----", base64decode(var.certificate_authority)))
    error_message = "This is not a certificate in base64. Use kube_config[0].cluster_ca_certificate of azurerm_kubernetes_cluster, without base64decode."
  }
}

variable "login" {
  description = "How kubelogin gets a token: azurecli with the login of the Azure command line, spn or workloadidentity in a pipeline, msi on a machine of Azure. The last three read the variables of their environment, such as AZURE_CLIENT_ID."
  type        = string
  default     = "azurecli"

  validation {
    condition     = contains(["azurecli", "spn", "workloadidentity", "msi"], var.login)
    error_message = "Give azurecli, spn, workloadidentity or msi. Others ask a person."
  }
}

variable "server_id" {
  description = "The application that tokens are for. The default is the one of all AKS clusters with Microsoft Entra ID."
  type        = string
  default     = "6dae42f8-4368-4678-94ff-3960e28e3630"

  validation {
    condition     = can(regex("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", var.server_id))
    error_message = "Give the ID of an application, such as 6dae42f8-4368-4678-94ff-3960e28e3630."
  }
}

variable "location" {
  description = "The region of the cluster, such as francecentral. It becomes the label region."
  type        = string
  default     = null
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
