data "muster_managed_clusters" "europe" {
  label_selector = "region=eu"
}

output "europe" {
  value = data.muster_managed_clusters.europe.names
}
