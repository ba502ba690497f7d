output "clusters" {
  description = "The names of the clusters, once each is accepted and its agent is installed, or could not be. What depends on it does not wait for clusters that can't join: they are in problems."
  value       = { for name, klusterlet in muster_klusterlet.this : name => klusterlet.cluster_name }
  depends_on  = [muster_cluster_acceptance.this]
}

output "problems" {
  description = "Why the agent could not be installed, by cluster. Null where it is installed."
  value       = { for name, klusterlet in muster_klusterlet.this : name => klusterlet.problem }
}

output "registered" {
  description = "The names of the clusters, once all of them have joined and are available. What depends on it is skipped while one of them can't join."
  value       = { for name, registration in muster_cluster_registration.this : name => registration.managed_cluster }
}
