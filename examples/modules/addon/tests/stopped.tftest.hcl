# A mock makes every boolean false, so that the rollout has stopped.
mock_provider "muster" {}

run "a_rollout_that_stops_fails" {
  variables {
    name      = "logger"
    placement = { namespace = "fleet", name = "europe" }
    manifests = ["{apiVersion: v1, kind: Namespace, metadata: {name: logger}}"]
  }

  expect_failures = [muster_addon.this]
}
