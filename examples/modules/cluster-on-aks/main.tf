# How Terraform reaches an AKS cluster with Microsoft Entra ID, existing or new, to
# install the agent. kubelogin makes a token whenever one is needed, so none is in the
# state, and none expires during a long apply.

locals {
  connection = {
    host                   = var.host
    cluster_ca_certificate = base64decode(var.certificate_authority)
    exec = {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "kubelogin"
      args        = ["get-token", "--login", var.login, "--server-id", var.server_id]
    }
  }

  labels = tomap(merge(
    { cloud = "azure" },
    var.location == null ? {} : { region = var.location },
    var.labels,
  ))
}
