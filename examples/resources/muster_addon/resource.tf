# An add-on from a template, in all European clusters: a change goes to two clusters at
# a time, and stops at the first that does not get it within 10 minutes.
resource "muster_addon" "logger" {
  name              = "logger"
  display_name      = "Logger"
  description       = "Collects the logs of the cluster's pods."
  template          = "logger-v2"
  deployment_config = { namespace = "fleet", name = "logger" }

  placements = [{
    namespace = "fleet"
    name      = "europe"
    rollout_strategy = {
      type              = "Progressive"
      max_concurrency   = "2"
      progress_deadline = "10m"
    }
  }]

  wait = { rolled_out = true, available = true }
}

# The canaries get another template.
resource "muster_addon" "scanner" {
  name              = "scanner"
  supported_configs = [{ resource = "addontemplates" }]

  placements = [
    {
      namespace = "fleet"
      name      = "europe"
      configs   = [{ resource = "addontemplates", name = "scanner-v1" }]
    },
    {
      namespace = "fleet"
      name      = "canaries"
      configs   = [{ resource = "addontemplates", name = "scanner-v2" }]
    },
  ]
}

# An add-on with a manager of its own on the hub, which is installed where a
# muster_cluster_addon puts it.
resource "muster_addon" "backup" {
  name              = "backup"
  managed_by        = "self"
  supported_configs = [{ group = "backup.example.com", resource = "backupplans" }]
}
