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

  # A cluster that is away for less than five minutes stays chosen.
  tolerations = [{
    key                = "cluster.open-cluster-management.io/unreachable"
    operator           = "Exists"
    toleration_seconds = 300
  }]
}
