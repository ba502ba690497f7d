# Against a real hub, with two clusters that join it. What the runs create is
# destroyed at the end, in the opposite order.
#
#   muster up --clusters 2
#   export MUSTER_KUBECONFIG=$PWD/.muster/hub/admin.kubeconfig
#   terraform init && terraform test

variables {
  team = "shop"
}

run "create" {
  assert {
    condition     = output.placements == { production = "shop/production", test = "shop/test" }
    error_message = "There is not one placement for each stage."
  }
}

# Another module brings the clusters, as it does in earnest.
run "clusters_join" {
  module {
    source = "../../modules/fleet-onboarding"
  }
  variables {
    # Terraform 1.11 does not take the default of an ephemeral variable in tests.
    bootstrap_kubeconfigs = {}

    clusters = {
      cluster1 = {
        connection  = { kubeconfig_path = ".muster/clusters/cluster1/admin.kubeconfig" }
        cluster_set = "shop"
        labels      = { stage = "production" }
      }
      cluster2 = {
        connection  = { kubeconfig_path = ".muster/clusters/cluster2/admin.kubeconfig" }
        cluster_set = "shop"
        labels      = { stage = "test" }
      }
    }
  }
  assert {
    condition     = sort(keys(output.clusters)) == tolist(["cluster1", "cluster2"])
    error_message = "Not all clusters have joined."
  }
}

run "production_is_selected" {
  module {
    source = "./tests/decisions"
  }
  variables {
    namespace = "shop"
    placement = "production"
  }
  assert {
    condition     = output.clusters == tolist(["cluster1"])
    error_message = "The hub has selected ${join(", ", output.clusters)}."
  }
}

run "a_stage_goes" {
  variables {
    stages = ["production"]
  }
  assert {
    condition     = output.placements == { production = "shop/production" }
    error_message = "The stage is still there."
  }
}
