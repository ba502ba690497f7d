list "muster_access_role" "all" {
  provider = muster
}
