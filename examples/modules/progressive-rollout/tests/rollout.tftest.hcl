mock_provider "muster" {
  mock_data "muster_placement_decisions" {
    defaults = { clusters = ["paris"] }
  }

  # A mock makes every boolean false, and this one means that the rollout has stopped.
  mock_resource "muster_manifest_work_replica_set" {
    defaults = { ready = true }
  }
}

variables {
  name      = "web"
  manifests = ["{apiVersion: v1, kind: Namespace, metadata: {name: web}}"]
}

run "defaults" {
  assert {
    condition     = muster_placement.this.decision_strategy.decision_groups[0].label_selector.match_labels == tomap({ canary = "true" })
    error_message = "The canaries are not those with the label canary=true."
  }
  assert {
    condition     = muster_manifest_work_replica_set.this.placements[0].rollout_strategy.mandatory_decision_groups[0].group_name == "canary"
    error_message = "The canaries do not go first."
  }
  assert {
    condition = alltrue([
      muster_manifest_work_replica_set.this.placements[0].rollout_strategy.max_failures == "0",
      muster_manifest_work_replica_set.this.placements[0].rollout_strategy.progress_deadline == "10m",
    ])
    error_message = "A failure does not stop the rollout."
  }
  assert {
    condition     = output.canaries == ["paris"] && output.replica_set == { namespace = "default", name = "web" }
    error_message = "The outputs are not as expected."
  }
}

run "objects_as_hcl" {
  variables {
    manifests = null
    objects = [
      { apiVersion = "v1", kind = "Namespace", metadata = { name = "web" } },
      { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "web", namespace = "web" }, data = { a = "1" } },
    ]
  }

  assert {
    condition     = muster_manifest_work_replica_set.this.objects[1].data.a == "1"
    error_message = "The objects do not arrive."
  }
}

run "without_canaries" {
  variables {
    canary_labels  = null
    cluster_sets   = ["production"]
    cluster_labels = { region = "eu" }
    wait           = false
  }

  assert {
    condition     = muster_placement.this.decision_strategy == null && output.canaries == []
    error_message = "There are canaries nevertheless."
  }
  assert {
    condition     = muster_placement.this.predicates[0].label_selector.match_labels == tomap({ region = "eu" })
    error_message = "The labels do not narrow the selection."
  }
  assert {
    condition     = muster_manifest_work_replica_set.this.wait == null
    error_message = "It waits nevertheless."
  }
}

run "no_cluster_is_a_canary" {
  override_data {
    target = data.muster_placement_decisions.canary
    values = { clusters = [] }
  }

  expect_failures = [muster_manifest_work_replica_set.this]
}

run "mistakes" {
  command = plan

  variables {
    name              = "Web"
    manifests         = []
    canary_labels     = {}
    max_concurrency   = "0"
    max_failures      = "101%"
    min_success_time  = "2 minutes"
    progress_deadline = "None"
    timeout           = "1d"
    manifest_configs  = [{ update_strateg = {} }]
    values            = [{ name = "REGION", lable = "region" }]
    overrides         = [{ object = { knd = "Deployment" } }]
  }

  expect_failures = [
    var.name, var.manifests, var.canary_labels, var.max_concurrency, var.max_failures,
    var.min_success_time, var.progress_deadline, var.timeout, var.manifest_configs, var.values, var.overrides,
  ]
}

run "gates" {
  variables {
    gates = [{ group = "1" }, { group = "stores", window = { days = ["Sat"], from = "22:00", to = "04:00" } }]
    wait  = false
  }

  assert {
    condition = (
      [for gate in muster_manifest_work_replica_set.this.gates : gate.group] == ["1", "stores"] &&
      muster_manifest_work_replica_set.this.gates[0].window == null &&
      muster_manifest_work_replica_set.this.gates[1].window.from == "22:00"
    )
    error_message = "The gates are not those that were asked for."
  }
}

run "cluster_by_cluster" {
  variables {
    values    = [{ name = "REGION", label = "region" }]
    overrides = [{ object = { kind = "Deployment" }, type = "Merge", patch = "{}" }]
  }

  assert {
    condition = (
      muster_manifest_work_replica_set.this.values[0].label == "region" &&
      muster_manifest_work_replica_set.this.overrides[0].type == "Merge"
    )
    error_message = "What differs from cluster to cluster does not arrive."
  }
}

run "nothing_else" {
  assert {
    condition     = muster_manifest_work_replica_set.this.gates == null && muster_manifest_work_replica_set.this.values == null
    error_message = "There is something that nobody asked for."
  }
}
