data "muster_managed_cluster" "paris" {
  name = "paris"
}

output "paris" {
  value = "${data.muster_managed_cluster.paris.kubernetes_version}, available: ${data.muster_managed_cluster.paris.available}"
}
