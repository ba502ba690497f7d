# All production clusters in groups of at most ten, the canaries first.
resource "muster_placement" "production" {
  namespace    = "default"
  name         = "production"
  cluster_sets = ["production"]

  decision_strategy = {
    clusters_per_decision_group = "10"
    decision_groups = [{
      name           = "canary"
      label_selector = { match_labels = { canary = "true" } }
    }]
  }
}

resource "muster_manifest_work_replica_set" "web" {
  namespace = muster_placement.production.namespace
  name      = "web"

  manifests = [
    yamlencode({
      apiVersion = "v1"
      kind       = "Namespace"
      metadata   = { name = "web" }
    }),
    yamlencode({
      apiVersion = "apps/v1"
      kind       = "Deployment"
      metadata   = { name = "web", namespace = "web" }
      spec = {
        replicas = 3
        selector = { matchLabels = { app = "web" } }
        template = {
          metadata = { labels = { app = "web" } }
          spec     = { containers = [{ name = "web", image = "nginx:1.29" }] }
        }
      }
    }),
  ]

  # The canaries have to succeed. Then at most a quarter of the other clusters
  # change at the same time, and the second failure stops the rollout.
  placements = [{
    name = muster_placement.production.name
    rollout_strategy = {
      type                      = "Progressive"
      mandatory_decision_groups = [{ group_name = "canary" }]
      max_concurrency           = "25%"
      max_failures              = "1"
      min_success_time          = "2m"
      progress_deadline         = "15m"
    }
  }]

  # muster's agents report this without a rule; upstream's don't,
  # and a rollout can't go on without it.
  manifest_configs = [{
    resource_identifier = {
      group     = "apps"
      resource  = "deployments"
      namespace = "web"
      name      = "web"
    }
    condition_rules = [{
      condition = "Progressing"
      type      = "CEL"
      cel_expressions = [join(" || ", [
        "!has(object.status.observedGeneration) || object.status.observedGeneration < object.metadata.generation",
        "!has(object.status.updatedReplicas) || object.status.updatedReplicas < object.spec.replicas",
        "!has(object.status.availableReplicas) || object.status.availableReplicas < object.spec.replicas",
      ])]
    }]
  }]

  # Terraform continues once the rollout is over.
  wait = { rolled_out = true }

  timeouts {
    create = "1h"
    update = "1h"
  }
}
