list "muster_addon_deployment_config" "all" {
  provider = muster
}
