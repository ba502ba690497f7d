data "muster_rendered_addon" "paris" {
  template          = "logger-v1"
  managed_cluster   = "paris"
  deployment_config = { namespace = "fleet", name = "logger" }
}

output "logger_in_paris" {
  value = nonsensitive(jsondecode(data.muster_rendered_addon.paris.rendered[0]).spec.template.spec.containers[0].args)
}
