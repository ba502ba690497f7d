# The hourly cost of each cluster, as a score from -100 to 100: the higher the cost,
# the lower the score.
locals {
  hourly_cost = {
    paris     = 40
    frankfurt = 90
  }
}

resource "muster_addon_placement_score" "cost" {
  for_each = local.hourly_cost

  managed_cluster = each.key
  name            = "cost"
  scores          = { hourly = 100 - each.value }
}

# The cheapest cluster.
resource "muster_placement" "cheapest" {
  namespace          = "default"
  name               = "cheapest"
  number_of_clusters = 1

  prioritizer_policy = {
    mode = "Exact"
    configurations = [{
      add_on = { resource_name = "cost", score_name = "hourly" }
    }]
  }

  depends_on = [muster_addon_placement_score.cost]
}
