resource "muster_manifest_work_replica_set" "web" {
  namespace  = "default"
  name       = "web"
  placements = [{ name = "everywhere" }]
  objects    = [{ apiVersion = "v1", kind = "Namespace", metadata = { name = "web" } }]
}

# Fails the run when the rollout does not end in time, and names the works that hold
# it up.
resource "muster_manifest_work_replica_set_wait" "web" {
  namespace  = muster_manifest_work_replica_set.web.namespace
  name       = muster_manifest_work_replica_set.web.name
  generation = muster_manifest_work_replica_set.web.generation
  rolled_out = true

  timeouts {
    create = "15m"
    update = "15m"
  }
}
