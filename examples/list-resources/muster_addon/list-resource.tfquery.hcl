list "muster_addon" "all" {
  provider = muster
}
