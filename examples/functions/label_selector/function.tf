data "muster_managed_clusters" "production" {
  label_selector = provider::muster::label_selector({
    match_labels      = { env = "prod" }
    match_expressions = [{ key = "region", operator = "In", values = ["eu", "us"] }]
  })
}
