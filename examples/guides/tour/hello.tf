variable "greeting" {
  type    = string
  default = "Hello"
}

variable "namespace" {
  type    = string
  default = "default"
}

# Placements in this namespace may select clusters of this set. Clusters that are put
# into no other set are in the set default.
resource "muster_managed_cluster_set_binding" "default" {
  namespace   = "default"
  cluster_set = "default"
}

# Which clusters: those with the label.
resource "muster_placement" "production" {
  namespace    = muster_managed_cluster_set_binding.default.namespace
  name         = "production"
  cluster_sets = [muster_managed_cluster_set_binding.default.cluster_set]

  predicates = [{
    label_selector = { match_labels = { environment = "production" } }
  }]

  depends_on = [module.fleet]
}

# What they get.
resource "muster_manifest_work_replica_set" "hello" {
  namespace  = muster_placement.production.namespace
  name       = "hello"
  placements = [{ name = muster_placement.production.name }]

  manifests = [yamlencode({
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { name = "hello", namespace = var.namespace }
    data       = { greeting = var.greeting }
  })]

  # Until it has arrived everywhere.
  wait = { rolled_out = true }

  timeouts {
    create = "1m"
    update = "20s"
  }
}

output "clusters" {
  value = muster_placement.production.selected_clusters
}
