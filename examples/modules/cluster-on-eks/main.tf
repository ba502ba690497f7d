# How Terraform reaches an EKS cluster, existing or new, to install the agent. The
# AWS command line makes a token whenever one is needed, so none is in the state, and
# none expires during a long apply.

locals {
  connection = {
    host                   = var.endpoint
    cluster_ca_certificate = base64decode(var.certificate_authority)
    exec = {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "aws"
      args = concat(
        ["eks", "get-token", "--output", "json", "--cluster-name", var.name],
        var.region == null ? [] : ["--region", var.region],
        var.profile == null ? [] : ["--profile", var.profile],
        var.role_arn == null ? [] : ["--role-arn", var.role_arn],
      )
    }
  }

  labels = tomap(merge(
    { cloud = "aws" },
    var.region == null ? {} : { region = var.region },
    var.labels,
  ))
}
