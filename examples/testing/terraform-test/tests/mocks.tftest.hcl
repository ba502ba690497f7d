# Without a hub, in a moment: the module's own logic.
#
#   terraform init && terraform test -filter=tests/mocks.tftest.hcl

mock_provider "muster" {}

variables {
  team = "shop"
}

run "a_placement_for_each_stage" {
  assert {
    condition     = output.placements == { production = "shop/production", test = "shop/test" }
    error_message = "There is not one placement for each stage."
  }
  assert {
    condition     = alltrue([for p in muster_placement.stage : contains(p.cluster_sets, "shop")])
    error_message = "A placement selects from another set."
  }
}

run "a_name_that_is_none" {
  command = plan

  variables {
    team = "The Shop"
  }
  expect_failures = [var.team]
}
