output "clusters" {
  description = "The names of the clusters, once each is accepted and its agent is installed, or could not be. What depends on it does not wait for clusters that can't join: they are in problems."
  value       = { for name, cluster in muster_managed_cluster.this : name => try(muster_klusterlet.this[name].cluster_name, cluster.name) }
  depends_on  = [muster_cluster_acceptance.this]
}

output "problems" {
  description = "Why a cluster has not joined, by cluster: its agent could not be installed, or does not reach the hub. Null where the cluster has joined, or nobody waits for it."
  value = { for name in keys(local.clusters) : name => try(
    muster_klusterlet.this[name].joined == true ? null : join("\n", coalescelist(muster_klusterlet.this[name].problems)),
    null,
  ) }
}

output "outdated" {
  description = "Why the agent of a cluster that has joined could not be brought up to date, by cluster, for example because the cluster is offline; the next apply tries again. Null where it is up to date."
  value = { for name in keys(local.clusters) : name => try(
    muster_klusterlet.this[name].joined == true ? join("\n", coalescelist(muster_klusterlet.this[name].problems)) : null,
    null,
  ) }
}

output "registered" {
  description = "The names of the clusters, once all of them have joined and are available. What depends on it is skipped while one of them can't join. Clusters that are not accepted, and those that register themselves, are not waited for."
  value       = { for name, registration in muster_cluster_registration.this : name => registration.managed_cluster }
}

output "join_commands" {
  description = "For each cluster without a connection, which registers itself: what to run, first with the hub's kubeconfig, then in the cluster."
  value = { for name, cluster in muster_managed_cluster.this : name => <<-EOT
    # With the hub's kubeconfig. The token in it is valid for an hour, for this cluster alone.
    muster rejoin ${name} > ${name}.bootstrap.kubeconfig

    # Where the cluster is reached. It joins as soon as the agent runs.
    muster agent --cluster-name ${name} --bootstrap-kubeconfig ${name}.bootstrap.kubeconfig --kubeconfig ${name}.kubeconfig
  EOT
    if !contains(keys(local.reached), name)
  }
}

output "tokens" {
  description = "The tokens of the variable tokens, by name."
  value       = { for name, token in muster_bootstrap_token.this : name => token.token }
  sensitive   = true
}
