# How Terraform reaches a GKE cluster, existing or new, to install the agent. Google's
# credential plugin makes a token whenever one is needed, so none is in the state, and
# none expires during a long apply.

locals {
  connection = {
    host                   = "https://${var.endpoint}"
    cluster_ca_certificate = var.certificate_authority == null ? null : base64decode(var.certificate_authority)
    exec = {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "gke-gcloud-auth-plugin"
    }
  }

  labels = tomap(merge(
    { cloud = "google" },
    # Of a zone, the region.
    var.location == null ? {} : { region = regex("^[a-z]+-[a-z]+[0-9]+", var.location) },
    var.labels,
  ))
}
