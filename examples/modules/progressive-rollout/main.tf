# Objects for a part of the fleet, rolled out in two steps: first to the canaries, and
# when all of them have succeeded, to the others, some at a time. A failure stops it.

terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = ">= 0.1"
    }
  }
}

resource "muster_placement" "this" {
  namespace    = var.namespace
  name         = var.name
  cluster_sets = var.cluster_sets

  predicates = var.cluster_labels == null ? null : [{
    label_selector = { match_labels = var.cluster_labels }
  }]

  decision_strategy = var.canary_labels == null ? null : {
    decision_groups = [{
      name           = "canary"
      label_selector = { match_labels = var.canary_labels }
    }]
  }

  # A rollout to no cluster at all would succeed at once.
  wait = { min_clusters = 1 }

  timeouts {
    create = "1m"
    update = "1m"
  }
}

data "muster_placement_decisions" "canary" {
  count = var.canary_labels == null ? 0 : 1

  namespace  = muster_placement.this.namespace
  placement  = muster_placement.this.name
  group_name = "canary"

  # The clusters that a changed placement selects.
  depends_on = [muster_placement.this]
}

resource "muster_manifest_work_replica_set" "this" {
  namespace        = muster_placement.this.namespace
  name             = var.name
  manifests        = var.manifests
  objects          = var.objects
  manifest_configs = var.manifest_configs
  values           = var.values
  overrides        = var.overrides

  gates = length(var.gates) == 0 ? null : var.gates

  placements = [{
    name = muster_placement.this.name
    rollout_strategy = {
      type                      = "Progressive"
      mandatory_decision_groups = var.canary_labels == null ? null : [{ group_name = "canary" }]
      max_concurrency           = var.max_concurrency
      max_failures              = var.max_failures
      min_success_time          = var.min_success_time
      progress_deadline         = var.progress_deadline
    }
  }]

  wait = var.wait ? { rolled_out = true } : null

  timeouts {
    create = var.timeout
    update = var.timeout
  }

  lifecycle {
    precondition {
      condition     = var.canary_labels == null || length(flatten(data.muster_placement_decisions.canary[*].clusters)) > 0
      error_message = "No selected cluster has the labels ${jsonencode(var.canary_labels)}, so nothing would be tried before it goes everywhere. Label a cluster, change canary_labels, or set it to null for a rollout without canaries."
    }
  }
}
