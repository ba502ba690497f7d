terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = "~> 0.1"
    }
  }
}

# The project.
resource "muster_namespace" "project1" {
  name = "project1"
}

# The cluster references: the clusters of a set, as far as a placement selects them.
resource "muster_managed_cluster_set_binding" "edge" {
  namespace   = muster_namespace.project1.name
  cluster_set = "edge"
}

resource "muster_placement" "edge" {
  namespace    = muster_managed_cluster_set_binding.edge.namespace
  name         = "edge"
  cluster_sets = [muster_managed_cluster_set_binding.edge.cluster_set]
}

# The logical cloud with its namespace, quota, user and permissions.
resource "muster_logical_cloud" "lc1" {
  namespace         = muster_namespace.project1.name
  name              = "lc1"
  placements        = [muster_placement.edge.name]
  cluster_namespace = { name = "ns1", on_delete = "Delete" }

  quotas = {
    quota1 = { "limits.cpu" = "400", "limits.memory" = "1000Gi" }
  }

  grants = [{
    users = ["user-1"]
    rules = [{
      api_groups = [""]
      resources  = ["secrets", "pods"]
      verbs      = ["get", "watch", "list", "create"]
    }]
  }]

  # The hub makes the key and hands it out inside the kubeconfig, as DCM does.
  access = { key_policy = "HubMade", max_lifetime = "720h", default_lifetime = "720h" }
}
