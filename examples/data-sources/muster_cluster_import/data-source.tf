data "muster_cluster_import" "paris" {
  name = "paris"
}

output "paris_waits_for" {
  value = data.muster_cluster_import.paris.problem
}
