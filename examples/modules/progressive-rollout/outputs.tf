output "clusters" {
  description = "The clusters that are selected, in alphabetical order."
  value       = muster_placement.this.selected_clusters
}

output "canaries" {
  description = "Those that go first."
  value       = flatten(data.muster_placement_decisions.canary[*].clusters)
}

output "progress" {
  description = "How far the rollout is: whether it has succeeded everywhere, and the number of works that have the present manifests (total), and of these those that are applied, available, progressing and degraded."
  value = merge(
    { rolled_out = muster_manifest_work_replica_set.this.rolled_out },
    muster_manifest_work_replica_set.this.summary,
  )

  # A rollout that stops right after its creation only warns. After a change, the
  # resource itself fails, and this is not looked at.
  precondition {
    condition     = muster_manifest_work_replica_set.this.ready != false
    error_message = "The rollout of ${var.namespace}/${var.name} has stopped, or takes longer than ${var.timeout}. The warning above names the clusters. Correct the manifests and apply again."
  }
}

output "replica_set" {
  description = "Namespace and name of the replica set, for the data source muster_manifest_work_replica_set, which lists the works cluster by cluster."
  value = {
    namespace = muster_manifest_work_replica_set.this.namespace
    name      = muster_manifest_work_replica_set.this.name
  }
}
