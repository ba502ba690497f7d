data "muster_managed_cluster" "paris" {
  name = "paris"
}

# What the agent reports is null until the cluster has joined.
output "paris" {
  value = (data.muster_managed_cluster.paris.joined
    ? "Kubernetes ${data.muster_managed_cluster.paris.kubernetes_version}, available: ${data.muster_managed_cluster.paris.available}"
    : "has not joined yet"
  )
}
