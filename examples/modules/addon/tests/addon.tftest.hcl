mock_provider "muster" {
  # A mock makes every boolean false, and this one means that the rollout has stopped.
  mock_resource "muster_addon" {
    defaults = {
      ready              = true
      rolled_out         = true
      installed_clusters = ["paris"]
    }
  }
}

variables {
  name      = "logger"
  placement = { namespace = "fleet", name = "europe" }
  manifests = ["{apiVersion: v1, kind: Namespace, metadata: {name: logger}}"]
}

run "defaults" {
  assert {
    condition     = muster_addon.this.template == muster_addon_template.this.name && startswith(output.template, "logger-")
    error_message = "The add-on is not made from its template."
  }
  assert {
    condition     = muster_addon_template.this.addon_name == "logger" && length(muster_addon_deployment_config.this) == 0 && muster_addon.this.deployment_config == null
    error_message = "There is more than a template."
  }
  assert {
    condition = alltrue([
      muster_addon.this.placements[0].namespace == "fleet",
      muster_addon.this.placements[0].name == "europe",
      muster_addon.this.placements[0].rollout_strategy.max_failures == "0",
      muster_addon.this.placements[0].rollout_strategy.progress_deadline == "10m",
      muster_addon.this.placements[0].rollout_strategy.mandatory_decision_groups == null,
    ])
    error_message = "A failure does not stop the rollout."
  }
  assert {
    condition     = muster_addon.this.wait.rolled_out && muster_addon.this.wait.available
    error_message = "It does not wait."
  }
  assert {
    condition     = output.rolled_out && output.clusters == tolist(["paris"]) && output.name == "logger"
    error_message = "The outputs are not as expected."
  }
}

run "other_objects_are_another_template" {
  variables {
    manifests = ["{apiVersion: v1, kind: Namespace, metadata: {name: other}}"]
  }

  assert {
    condition     = output.template != run.defaults.template
    error_message = "The clusters that a rollout has not reached would lose the former template."
  }
}

run "with_variables" {
  variables {
    manifests         = null
    objects           = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x", namespace = "default" }, data = { level = "{{LEVEL}}" } }]
    variables         = { LEVEL = "info" }
    install_namespace = "agents"
    revision          = "v2"
    canary_groups     = ["canary"]
    wait              = false
  }

  assert {
    condition     = output.template == "logger-v2" && muster_addon_template.this.objects[0].data.level == "{{LEVEL}}"
    error_message = "The objects do not arrive."
  }
  assert {
    condition = alltrue([
      muster_addon_deployment_config.this[0].customized_variables == tomap({ LEVEL = "info" }),
      muster_addon_deployment_config.this[0].agent_install_namespace == "agents",
      muster_addon.this.deployment_config.name == muster_addon_deployment_config.this[0].name,
      muster_addon.this.deployment_config.namespace == "fleet",
    ])
    error_message = "The variables do not arrive."
  }
  assert {
    condition     = muster_addon.this.placements[0].rollout_strategy.mandatory_decision_groups[0].group_name == "canary" && muster_addon.this.wait == null
    error_message = "The canaries do not go first, or it waits nevertheless."
  }
}

run "cluster_by_cluster" {
  variables {
    values    = [{ name = "REGION", label = "region" }]
    overrides = [{ object = { kind = "Namespace" }, type = "Merge", patch = "{}" }]
    gates     = [{ group = "stores", window = { days = ["Sat"], from = "22:00", to = "04:00" } }]
    wait      = false
  }

  assert {
    condition     = muster_addon_template.this.values[0].label == "region" && muster_addon_template.this.overrides[0].type == "Merge"
    error_message = "What differs from cluster to cluster does not arrive."
  }
  assert {
    condition     = output.template != run.defaults.template
    error_message = "Other values are no other template, so that they would not be rolled out beside the former one."
  }
  assert {
    condition     = muster_addon.this.gates[0].window.from == "22:00"
    error_message = "The gates are not those that were asked for."
  }
}

run "nothing_differs" {
  assert {
    condition     = output.template == run.defaults.template && muster_addon.this.gates == null && muster_addon_template.this.values == null
    error_message = "There is something that nobody asked for."
  }
}

run "mistakes" {
  command = plan

  variables {
    name              = "Logger"
    manifests         = []
    revision          = "V 2"
    max_concurrency   = "0"
    max_failures      = "101%"
    min_success_time  = "2 minutes"
    progress_deadline = "None"
    timeout           = "1d"
    placement         = { namespace = "fleet", nam = "europe" }
    manifest_configs  = [{ update_strateg = {} }]
    registration      = [{ kube_client = { hub_permisions = [] } }]
    values            = [{ name = "REGION", lable = "region" }]
    overrides         = [{ object = { knd = "Namespace" } }]
  }

  expect_failures = [
    var.name, var.manifests, var.revision, var.max_concurrency, var.max_failures, var.min_success_time, var.progress_deadline, var.timeout,
    var.placement, var.manifest_configs, var.registration, var.values, var.overrides,
  ]
}
