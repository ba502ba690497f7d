# What the entries of clusters and tokens may have, by the attributes of the resources
# that they become. A plan refuses any other attribute: Terraform itself drops what it
# does not know without a word.

locals {
  clusters_shape = { "*" = local.cluster_shape }
  tokens_shape   = { "*" = local.token_shape }

  # What the hub takes as the name of a cluster.
  cluster_name = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"

  cluster_shape = {
    # How Terraform reaches the cluster.
    connection  = "muster_klusterlet.cluster_connection"
    cluster_uid = "muster_klusterlet.cluster_uid"

    # The cluster on the hub.
    labels                 = "muster_managed_cluster.labels"
    annotations            = "muster_managed_cluster.annotations"
    cluster_set            = "muster_managed_cluster.cluster_set"
    client_id              = "muster_managed_cluster.client_id"
    client_configs         = "muster_managed_cluster.client_configs"
    taints                 = "muster_managed_cluster.taints"
    lease_duration_seconds = "muster_managed_cluster.lease_duration_seconds"
    adopt                  = "muster_managed_cluster.adopt"
    force_conflicts        = "muster_managed_cluster.force_conflicts"
    gone                   = "muster_managed_cluster.gone"

    # The hub's opt-in.
    accept = "muster_cluster_acceptance.accepted"
    acceptance = {
      approve_csr      = "muster_cluster_acceptance.approve_csr"
      approve_csr_name = "muster_cluster_acceptance.approve_csr_name"
      requesters       = "muster_cluster_acceptance.requesters"
      adopt            = "muster_cluster_acceptance.adopt"
      force_conflicts  = "muster_cluster_acceptance.force_conflicts"
    }

    # The agent, and how it joins.
    image = "muster_klusterlet.image"
    args  = "muster_klusterlet.args"
    agent = {
      namespace           = "muster_klusterlet.namespace"
      image_pull_policy   = "muster_klusterlet.image_pull_policy"
      image_pull_secrets  = "muster_klusterlet.image_pull_secrets"
      labels              = "muster_klusterlet.labels"
      annotations         = "muster_klusterlet.annotations"
      env                 = "muster_klusterlet.env"
      node_selector       = "muster_klusterlet.node_selector"
      affinity            = "muster_klusterlet.affinity"
      tolerations         = "muster_klusterlet.tolerations"
      resources           = "muster_klusterlet.resources"
      host_network        = "muster_klusterlet.host_network"
      priority_class_name = "muster_klusterlet.priority_class_name"
      user_access         = "muster_klusterlet.user_access"
      tunnels             = "muster_klusterlet.tunnels"
    }
    hub_server                   = "muster_klusterlet.bootstrap.server"
    bootstrap                    = "muster_klusterlet.bootstrap"
    bootstrap_kubeconfig_version = "muster_klusterlet.bootstrap_kubeconfig_wo_version"
    wait                         = "muster_klusterlet.wait_for_bootstrap"
    keep_works_on_destroy        = "muster_klusterlet.keep_works_on_destroy"
  }

  token_shape = {
    managed_cluster  = "muster_bootstrap_token.managed_cluster"
    managed_clusters = "muster_bootstrap_token.managed_clusters"
    client_ids       = "muster_bootstrap_token.client_ids"
    max_clusters     = "muster_bootstrap_token.max_clusters"
    cluster_labels   = "muster_bootstrap_token.cluster_labels"
    allowed_labels   = "muster_bootstrap_token.allowed_labels"
    ttl              = "muster_bootstrap_token.ttl"
    description      = "muster_bootstrap_token.description"
  }
}
