data "muster_addon" "logger" {
  name = "logger"
}

output "loggers_in_trouble" {
  value = { for c in data.muster_addon.logger.clusters : c.managed_cluster => c.problem if c.problem != "" }
}
