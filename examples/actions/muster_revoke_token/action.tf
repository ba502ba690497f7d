# terraform apply -invoke=action.muster_revoke_token.paris
action "muster_revoke_token" "paris" {
  config {
    managed_cluster = "paris"
  }
}
