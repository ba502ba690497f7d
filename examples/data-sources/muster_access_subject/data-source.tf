variable "public_key_pem" {
  description = "Public key of the certificate request, such as public_key_pem of a tls_private_key."
  type        = string
}

data "muster_access_subject" "ci" {
  public_key_pem = var.public_key_pem
}

# The subject block of a tls_cert_request takes these two.
output "subject" {
  value = {
    common_name  = data.muster_access_subject.ci.common_name
    organization = data.muster_access_subject.ci.organization
  }
}
