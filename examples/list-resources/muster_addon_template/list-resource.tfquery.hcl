list "muster_addon_template" "all" {
  provider = muster
}
