resource "muster_addon_deployment_config" "paris" {
  namespace            = "default"
  name                 = "metrics-paris"
  customized_variables = { LOG_LEVEL = "debug" }
}

# The add-on metrics in one cluster, with a configuration of its own there. The apply
# waits until the cluster has it and the add-on works.
resource "muster_cluster_addon" "metrics" {
  managed_cluster = "paris"
  name            = "metrics"

  configs = [{
    resource  = "addondeploymentconfigs"
    namespace = muster_addon_deployment_config.paris.namespace
    name      = muster_addon_deployment_config.paris.name
  }]

  wait = { rolled_out = true, available = true }
}
