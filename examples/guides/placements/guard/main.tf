variable "clusters" {
  description = "How many clusters to select."
  type        = number
  default     = 2
}

data "muster_placement_preview" "europe" {
  namespace          = "default"
  name               = "europe"
  number_of_clusters = var.clusters
}

resource "muster_placement" "europe" {
  namespace          = "default"
  name               = "europe"
  number_of_clusters = var.clusters
  planned_clusters   = data.muster_placement_preview.europe.clusters

  lifecycle {
    precondition {
      condition     = length(data.muster_placement_preview.europe.dropped) <= 2
      error_message = "Too many at once: ${join(", ", data.muster_placement_preview.europe.dropped)}."
    }
  }
}
