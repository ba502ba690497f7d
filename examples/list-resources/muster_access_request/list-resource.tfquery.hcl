list "muster_access_request" "team_a" {
  provider = muster

  config {
    namespace = "team-a"
  }
}
