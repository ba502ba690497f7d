variable "csr_pem" {
  description = "What \"muster access request --key ci.key\" prints. The key stays in its file."
  type        = string
}

# A certificate with which a job gets into one cluster.
resource "muster_access_request" "ci" {
  logical_cloud   = "team-a/prod"
  managed_cluster = "paris"
  csr_pem         = var.csr_pem
  ttl             = "8h"
  renew_before    = "2h"
}

output "certificate" {
  value = muster_access_request.ci.certificate_pem
}
