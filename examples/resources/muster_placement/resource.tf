# The two European clusters with the most memory left.
resource "muster_placement" "europe" {
  namespace          = "default"
  name               = "europe"
  cluster_sets       = ["production"]
  number_of_clusters = 2

  predicates = [{
    label_selector = {
      match_labels = { region = "eu" }
    }
    claim_selector = {
      match_expressions = [{
        key      = "platform.open-cluster-management.io"
        operator = "In"
        values   = ["AWS", "GCP"]
      }]
    }
  }]

  prioritizer_policy = {
    configurations = [{
      built_in = "ResourceAllocatableMemory"
      weight   = 2
    }]
  }

  # A cluster that is unreachable for less than five minutes stays selected.
  tolerations = [{
    key                = "cluster.open-cluster-management.io/unreachable"
    operator           = "Exists"
    toleration_seconds = 300
  }]
}

# Clusters with a recent version of Kubernetes, one in each of three regions if there
# are that many, in groups for rollouts. The apply waits for at least two.
resource "muster_placement" "regions" {
  namespace          = "default"
  name               = "regions"
  number_of_clusters = 3

  predicates = [{
    cel_expressions = ["semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver(\"1.32.0\"))"]
  }]

  spread_policy = {
    spread_constraints = [{
      topology_key       = "region"
      topology_key_type  = "Label"
      when_unsatisfiable = "DoNotSchedule"
    }]
  }

  decision_strategy = {
    clusters_per_decision_group = "50%"
    decision_groups = [{
      name           = "canary"
      label_selector = { match_labels = { canary = "true" } }
    }]
  }

  wait = { min_clusters = 2 }
}
