output "kubeconfig" {
  description = "How an administrator of the hub gets a kubeconfig for the user, with a context for each cluster. The user leaves --user out, and names a kubeconfig of their own."
  value       = "muster access kubeconfig --kubeconfig ${var.fleet_dir}/hub/admin.kubeconfig --cloud ${muster_logical_cloud_wait.prod.namespace}/${muster_logical_cloud_wait.prod.name} --user ${var.user} --output prod.kubeconfig"
}
