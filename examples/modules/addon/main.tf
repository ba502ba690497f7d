# An add-on from a template, in the clusters of a placement. Each version of the
# template and of its variables is an object of its own: a change goes to some clusters
# at a time, those that it has not reached keep the former version, and a failure stops
# it.

terraform {
  required_version = ">= 1.11"
  required_providers {
    muster = {
      source  = "muster-fleet/muster"
      version = ">= 0.1"
    }
  }
}

locals {
  placement_shape = { namespace = "string", name = "string" }

  differs  = [for name, given in { values = var.values, overrides = var.overrides } : { (name) = given } if given != null]
  content  = jsonencode(concat([var.manifests, var.objects, var.manifest_configs, var.registration], local.differs))
  template = "${var.name}-${coalesce(var.revision, substr(sha256(local.content), 0, 8))}"

  configured = var.variables != null || var.install_namespace != ""
  settings   = jsonencode([var.variables, var.install_namespace])
  config     = "${var.name}-${substr(sha256(local.settings), 0, 8)}"
}

resource "muster_addon_template" "this" {
  name             = local.template
  addon_name       = var.name
  manifests        = var.manifests
  objects          = var.objects
  manifest_configs = var.manifest_configs
  registration     = var.registration
  values           = var.values
  overrides        = var.overrides

  # The new one is there before the add-on names it, and the former one goes when no
  # cluster uses it any more.
  lifecycle {
    create_before_destroy = true
  }
}

resource "muster_addon_deployment_config" "this" {
  count = local.configured ? 1 : 0

  namespace               = var.placement.namespace
  name                    = local.config
  customized_variables    = var.variables
  agent_install_namespace = var.install_namespace

  lifecycle {
    create_before_destroy = true
  }
}

resource "muster_addon" "this" {
  name         = var.name
  display_name = var.display_name
  description  = var.description
  template     = muster_addon_template.this.name
  gates        = length(var.gates) == 0 ? null : var.gates

  deployment_config = local.configured ? {
    namespace = muster_addon_deployment_config.this[0].namespace
    name      = muster_addon_deployment_config.this[0].name
  } : null

  placements = [{
    namespace = var.placement.namespace
    name      = var.placement.name
    rollout_strategy = {
      type                      = "Progressive"
      mandatory_decision_groups = length(var.canary_groups) == 0 ? null : [for name in var.canary_groups : { group_name = name }]
      max_concurrency           = var.max_concurrency
      max_failures              = var.max_failures
      min_success_time          = var.min_success_time
      progress_deadline         = var.progress_deadline
    }
  }]

  wait = var.wait ? { rolled_out = true, available = true } : null

  timeouts {
    create = var.timeout
    update = var.timeout
    delete = var.timeout
  }

  lifecycle {
    # Without this, a rollout that stops right after its creation would only warn.
    postcondition {
      condition     = self.ready != false
      error_message = "The rollout of the add-on ${var.name} has stopped, or takes longer than ${var.timeout}. The message above names the clusters. Correct the objects and apply again."
    }
  }
}
