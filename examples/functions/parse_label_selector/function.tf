resource "muster_managed_cluster_set" "production" {
  name           = "production"
  label_selector = provider::muster::parse_label_selector("env=prod,region in (eu,us),!legacy")
}
