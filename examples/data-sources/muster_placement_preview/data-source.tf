locals {
  tolerations = [{
    key      = "cluster.open-cluster-management.io/unreachable"
    operator = "Exists"
  }]
}

# What a placement with these arguments would select.
data "muster_placement_preview" "europe" {
  namespace          = "default"
  name               = "europe"
  number_of_clusters = 2
  predicates         = [{ label_selector = { match_labels = { region = "eu" } } }]
  tolerations        = local.tolerations
}

# The plan shows what changes, and fails if clusters would be dropped.
resource "muster_placement" "europe" {
  namespace          = "default"
  name               = "europe"
  number_of_clusters = 2
  predicates         = [{ label_selector = { match_labels = { region = "eu" } } }]
  tolerations        = local.tolerations

  planned_clusters = data.muster_placement_preview.europe.clusters

  lifecycle {
    precondition {
      condition     = length(data.muster_placement_preview.europe.dropped) == 0
      error_message = "It would drop ${join(", ", data.muster_placement_preview.europe.dropped)}."
    }
  }
}

# Why the others are not selected.
output "left_out" {
  value = {
    for e in data.muster_placement_preview.europe.explanations : e.cluster => e.reason if !e.selected
  }
}
