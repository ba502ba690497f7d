list "muster_bootstrap_token" "all" {
  provider = muster
}
