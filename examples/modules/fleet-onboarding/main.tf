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

locals {
  # Which clusters there are is no secret, even where their credentials are.
  reached = { for name, cluster in var.clusters : name => cluster if nonsensitive(cluster.connection != null) }
  # Nobody waits for a cluster that is not accepted.
  awaited = { for name, cluster in local.reached : name => cluster if nonsensitive(cluster.accept) }
}

resource "muster_managed_cluster" "this" {
  for_each = var.clusters

  name        = each.key
  labels      = each.value.labels
  annotations = each.value.annotations
  cluster_set = each.value.cluster_set
  adopt       = each.value.adopt

  client_configs = each.value.client_configs
}

# The hub's opt-in. It and the agent do not wait for each other: the cluster joins
# when both have happened, whichever is first.
resource "muster_cluster_acceptance" "this" {
  for_each = var.clusters

  managed_cluster = muster_managed_cluster.this[each.key].name
  accepted        = each.value.accept

  # A cluster that registers itself may do so much later.
  approve_csr = each.value.connection == null ? false : null
}

# The cluster's opt-in: the agent, installed through the cluster's own kubeconfig.
# Its bootstrap kubeconfig is made when the agent needs one, for this cluster alone,
# and revoked when it has joined. A plan makes none.
# Where that fails, the other clusters continue: Terraform would skip everything
# that depends on a resource when one of its instances fails.
resource "muster_klusterlet" "this" {
  for_each = local.reached

  cluster_name       = muster_managed_cluster.this[each.key].name
  cluster_connection = each.value.connection
  image              = try(coalesce(each.value.image, var.agent_image), null)
  args               = each.value.args

  image_pull_policy   = each.value.agent.image_pull_policy
  image_pull_secrets  = each.value.agent.image_pull_secrets
  labels              = each.value.agent.labels
  annotations         = each.value.agent.annotations
  env                 = each.value.agent.env
  node_selector       = each.value.agent.node_selector
  tolerations         = each.value.agent.tolerations
  resources           = each.value.agent.resources
  host_network        = each.value.agent.host_network
  priority_class_name = each.value.agent.priority_class_name
  user_access         = each.value.agent.user_access

  bootstrap = each.value.bootstrap_kubeconfig_version != null ? null : {
    server  = try(coalesce(each.value.hub_server, var.hub_server), null)
    version = var.bootstrap_version
  }
  bootstrap_kubeconfig_wo         = each.value.bootstrap_kubeconfig_version == null ? null : lookup(var.bootstrap_kubeconfigs, each.key, null)
  bootstrap_kubeconfig_wo_version = each.value.bootstrap_kubeconfig_version

  wait_for_bootstrap    = each.value.accept
  keep_works_on_destroy = each.value.keep_works_on_destroy
  on_failure            = "continue"

  timeouts {
    create = var.agent_timeout
    update = var.agent_timeout
  }
}

# Waits until the cluster has joined and is available. After the timeout the error
# says why, and the next apply only repeats the wait. It does not wait for a cluster
# without an agent. Nothing depends on this, so it fails alone.
resource "muster_cluster_registration" "this" {
  for_each = local.awaited

  managed_cluster = muster_cluster_acceptance.this[each.key].managed_cluster

  lifecycle {
    precondition {
      condition     = length(muster_klusterlet.this[each.key].problems) == 0
      error_message = "The cluster ${each.key} has no agent, so it can't join. ${join("\n", muster_klusterlet.this[each.key].problems)}"
    }
  }
}
