variable "endpoint" {
  type    = string
  default = "https://paris.example.com:6443"
}

variable "token" {
  type      = string
  sensitive = true
  default   = null
}

# With a credential of its own.
output "kubeconfig" {
  sensitive = true
  value     = provider::muster::kubeconfig({ host = var.endpoint, token = var.token, name = "paris" })
}

# With a program that gets credentials, so that nothing in it is secret.
output "kubeconfig_without_secrets" {
  value = provider::muster::kubeconfig({
    host = var.endpoint
    exec = {
      api_version = "client.authentication.k8s.io/v1"
      command     = "aws"
      args        = ["eks", "get-token", "--cluster-name", "paris"]
    }
  })
}
