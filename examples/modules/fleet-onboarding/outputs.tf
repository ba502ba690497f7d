output "clusters" {
  description = "The names of the clusters that have joined and are available."
  value       = { for name, registration in muster_cluster_registration.this : name => registration.managed_cluster }
}
