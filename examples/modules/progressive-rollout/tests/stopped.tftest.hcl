mock_provider "muster" {
  mock_data "muster_placement_decisions" {
    defaults = { clusters = ["paris"] }
  }

  mock_resource "muster_manifest_work_replica_set" {
    defaults = { ready = false }
  }
}

variables {
  name      = "web"
  manifests = ["{apiVersion: v1, kind: Namespace, metadata: {name: web}}"]
}

run "stopped_after_its_creation" {
  expect_failures = [output.progress]
}
