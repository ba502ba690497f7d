list "muster_logical_cloud" "team_a" {
  provider = muster

  config {
    namespace = "team-a"
  }
}
