# Registers clusters with the fleet, one for each entry of the map. Adding an
# entry onboards a cluster, removing one detaches it.

terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source = "muster-fleet/muster"
    }
  }
}

resource "muster_managed_cluster" "this" {
  for_each = var.clusters

  name        = each.key
  labels      = each.value.labels
  cluster_set = each.value.cluster_set
}

# The hub's opt-in. It and the agent do not wait for each other: the cluster joins
# when both have happened.
resource "muster_cluster_acceptance" "this" {
  for_each = var.clusters

  managed_cluster = muster_managed_cluster.this[each.key].name
}

# A token for this one cluster. It is in no state and no plan, and it is revoked
# when Terraform is done.
ephemeral "muster_bootstrap_kubeconfig" "this" {
  for_each = var.clusters

  managed_cluster = muster_managed_cluster.this[each.key].name
  server          = var.hub_server
}

# The cluster's opt-in: the agent, installed through the cluster's own kubeconfig.
# Where that fails, the other clusters continue: Terraform would skip everything
# that depends on a resource when one of its instances fails.
resource "muster_klusterlet" "this" {
  for_each = var.clusters

  cluster_name       = muster_managed_cluster.this[each.key].name
  image              = var.agent_image
  cluster_connection = each.value.connection

  bootstrap_kubeconfig_wo         = ephemeral.muster_bootstrap_kubeconfig.this[each.key].kubeconfig
  bootstrap_kubeconfig_wo_version = var.bootstrap_version

  on_failure = "continue"

  timeouts {
    create = var.agent_timeout
    update = var.agent_timeout
  }
}

# Waits until the cluster has joined and is available. After the timeout the error
# says why, and the next apply only repeats the wait. It does not wait for a cluster
# without an agent. Nothing depends on this, so it fails alone.
resource "muster_cluster_registration" "this" {
  for_each = var.clusters

  managed_cluster = muster_cluster_acceptance.this[each.key].managed_cluster

  lifecycle {
    precondition {
      condition     = muster_klusterlet.this[each.key].problem == null
      error_message = "The cluster ${each.key} has no agent, so it can't join. ${coalesce(muster_klusterlet.this[each.key].problem, "-")}"
    }
  }
}
