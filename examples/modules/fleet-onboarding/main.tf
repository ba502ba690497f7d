# Registers clusters with the fleet, one for each entry of the map. Adding an
# entry onboards a cluster, removing one detaches it.

terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = ">= 0.1"
    }
  }
}

locals {
  # The entries with null for what they leave out. Which attributes they may have was
  # checked before: see shapes.tf. try gives what is not known before the apply where
  # any part of its argument is, and so is not used for a connection: which clusters
  # have one is known although its kubeconfig may not be.
  clusters = { for name, cluster in var.clusters : name => {
    hub        = cluster
    agent      = try({ for key, value in cluster.agent : key => value }, {})
    acceptance = try({ for key, value in cluster.acceptance : key => value }, {})
    connection = contains(keys(cluster), "connection") ? cluster.connection : null
    connected  = contains(keys(cluster), "connection") ? cluster.connection != null : false
    accept     = tobool(coalesce(try(cluster.accept, null), true))
    wait       = tobool(coalesce(try(cluster.wait, null), true)) && !tobool(coalesce(try(cluster.gone, null), false))
    own        = try(cluster.bootstrap_kubeconfig_version, null)
    bootstrap = merge(
      try({ for key, value in var.bootstrap : key => value if value != null }, {}),
      try({ server = coalesce(try(cluster.hub_server, null), var.hub_server) }, {}),
      { version = var.bootstrap_version },
      try({ for key, value in cluster.bootstrap : key => value if value != null }, {}),
    )
  } }

  # Which clusters there are is not a secret, even where their credentials are.
  reached = { for name, cluster in local.clusters : name => cluster if nonsensitive(cluster.connected) }
  # Nobody waits for a cluster that is not accepted, or gone.
  awaited = { for name, cluster in local.reached : name => cluster if nonsensitive(cluster.accept && cluster.wait) }
}

resource "muster_managed_cluster" "this" {
  for_each = local.clusters

  name                   = each.key
  labels                 = try(each.value.hub.labels, null)
  annotations            = try(each.value.hub.annotations, null)
  cluster_set            = try(each.value.hub.cluster_set, null)
  client_id              = try(each.value.hub.client_id, null)
  client_configs         = try(each.value.hub.client_configs, null)
  taints                 = try(each.value.hub.taints, null)
  lease_duration_seconds = try(each.value.hub.lease_duration_seconds, null)
  adopt                  = try(each.value.hub.adopt, null)
  force_conflicts        = try(each.value.hub.force_conflicts, null)
  gone                   = try(each.value.hub.gone, null)

  dynamic "timeouts" {
    for_each = var.detach_timeout[*]
    content {
      delete = timeouts.value
    }
  }
}

# The hub's opt-in. It and the agent do not wait for each other: the cluster joins
# when both have happened, whichever is first.
resource "muster_cluster_acceptance" "this" {
  for_each = local.clusters

  managed_cluster = muster_managed_cluster.this[each.key].name
  accepted        = each.value.accept

  # A cluster that registers itself may do so much later.
  approve_csr      = try(each.value.acceptance.approve_csr, each.value.connected ? null : false)
  approve_csr_name = try(each.value.acceptance.approve_csr_name, null)
  requesters       = try(each.value.acceptance.requesters, null)
  adopt            = try(each.value.acceptance.adopt, null)
  force_conflicts  = try(each.value.acceptance.force_conflicts, null)

  dynamic "timeouts" {
    for_each = var.acceptance_timeout[*]
    content {
      create = timeouts.value
      update = timeouts.value
      delete = timeouts.value
    }
  }
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
  cluster_uid        = try(each.value.hub.cluster_uid, null)
  image              = try(coalesce(try(each.value.hub.image, null), var.agent_image), null)
  args               = try(each.value.hub.args, null)

  namespace           = try(each.value.agent.namespace, null)
  image_pull_policy   = try(each.value.agent.image_pull_policy, null)
  image_pull_secrets  = try(each.value.agent.image_pull_secrets, null)
  labels              = try(each.value.agent.labels, null)
  annotations         = try(each.value.agent.annotations, null)
  env                 = try(each.value.agent.env, null)
  node_selector       = try(each.value.agent.node_selector, null)
  affinity            = try(each.value.agent.affinity, null)
  tolerations         = try(each.value.agent.tolerations, null)
  resources           = try(each.value.agent.resources, null)
  host_network        = try(each.value.agent.host_network, null)
  priority_class_name = try(each.value.agent.priority_class_name, null)
  user_access         = try(each.value.agent.user_access, null)
  tunnels             = try(each.value.agent.tunnels, null)

  bootstrap                       = each.value.own == null ? each.value.bootstrap : null
  bootstrap_kubeconfig_wo         = each.value.own == null ? null : lookup(var.bootstrap_kubeconfigs, each.key, null)
  bootstrap_kubeconfig_wo_version = each.value.own

  wait_for_bootstrap    = each.value.accept && each.value.wait
  keep_works_on_destroy = try(each.value.hub.keep_works_on_destroy, null)
  on_failure            = "continue"

  timeouts {
    create = var.agent_timeout
    update = var.agent_timeout
    delete = var.detach_timeout
  }
}

# Waits until the cluster has joined and is available. After the timeout the error
# says why, and the next apply only repeats the wait. It does not wait for a cluster
# whose agent can't join. Nothing depends on this, so it fails alone. A cluster that
# has joined and is offline is not a failure: a later apply brings its agent up to date.
resource "muster_cluster_registration" "this" {
  for_each = local.awaited

  managed_cluster = muster_cluster_acceptance.this[each.key].managed_cluster
  agent_ready     = muster_klusterlet.this[each.key].ready

  dynamic "timeouts" {
    for_each = var.registration_timeout[*]
    content {
      create = timeouts.value
    }
  }

  lifecycle {
    precondition {
      condition = (
        length(muster_klusterlet.this[each.key].problems) == 0 ||
        (muster_klusterlet.this[each.key].joined == true && muster_klusterlet.this[each.key].offline == true)
      )
      error_message = format(
        muster_klusterlet.this[each.key].joined == true ?
        "The agent in cluster %s was not brought up to date. %s" : "The cluster %s has not joined. %s",
        each.key, join("\n", muster_klusterlet.this[each.key].problems),
      )
    }
  }
}

# Tokens for clusters that register themselves.
resource "muster_bootstrap_token" "this" {
  for_each = var.tokens

  managed_cluster  = try(each.value.managed_cluster, null)
  managed_clusters = try(each.value.managed_clusters, null)
  client_ids       = try(each.value.client_ids, null)
  max_clusters     = try(each.value.max_clusters, null)
  cluster_labels   = try(each.value.cluster_labels, null)
  allowed_labels   = try(each.value.allowed_labels, null)
  ttl              = try(each.value.ttl, null)
  description      = try(each.value.description, null)
}
