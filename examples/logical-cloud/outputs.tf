output "kubeconfig" {
  description = "How the user gets a kubeconfig with a context for each cluster."
  value       = "muster access kubeconfig --cloud ${muster_logical_cloud_wait.prod.namespace}/${muster_logical_cloud_wait.prod.name} --user ${var.user} --output prod.kubeconfig"
}
