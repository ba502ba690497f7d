# The module without a hub and without clusters: terraform test in this folder.
mock_provider "muster" {}

variables {
  clusters = {
    paris = {
      connection  = { kubeconfig_path = "paris.kubeconfig" }
      cluster_set = "production"
      labels      = { region = "eu" }
      annotations = { owner = "shop" }
      image       = "registry.example.com/agent:v2"
      args        = ["-v=2"]
    }
    rome = { connection = { host = "https://rome.example.com:6443", token = "t" }, accept = false }
    edge = {}
    own  = { connection = { kubeconfig_path = "own.kubeconfig" }, bootstrap_kubeconfig_version = 3 }
  }
  bootstrap_kubeconfigs = {
    own = <<-YAML
      apiVersion: v1
      kind: Config
      current-context: bootstrap
      clusters: [{name: hub, cluster: {server: "https://hub.example.com:6443"}}]
      users: [{name: bootstrap, user: {token: abcdef.0123456789abcdef}}]
      contexts: [{name: bootstrap, context: {cluster: hub, user: bootstrap}}]
    YAML
  }
  agent_image = "registry.example.com/agent:v1"
  hub_server  = "https://hub.example.com:6443"
}

run "plan" {
  command = plan
}

run "apply" {
  assert {
    condition     = output.clusters == { for name in ["edge", "own", "paris", "rome"] : name => name }
    error_message = "The clusters are not those of the argument."
  }
  assert {
    condition     = alltrue([for problem in values(output.problems) : problem == null])
    error_message = "There are problems."
  }
  assert {
    condition     = keys(output.registered) == ["own", "paris"] && keys(output.join_commands) == ["edge"]
    error_message = "What is waited for, or what registers itself, is not as expected."
  }
  assert {
    condition     = keys(muster_klusterlet.this) == ["own", "paris", "rome"] && !muster_cluster_acceptance.this["rome"].accepted && muster_cluster_acceptance.this["edge"].accepted
    error_message = "The agents or the acceptances are not as expected."
  }
  assert {
    condition     = muster_klusterlet.this["paris"].image == "registry.example.com/agent:v2" && muster_klusterlet.this["rome"].image == "registry.example.com/agent:v1"
    error_message = "The images are not as expected."
  }
  assert {
    condition     = muster_klusterlet.this["paris"].bootstrap.server == "https://hub.example.com:6443" && muster_klusterlet.this["own"].bootstrap == null && muster_klusterlet.this["own"].bootstrap_kubeconfig_wo_version == 3
    error_message = "The bootstrap kubeconfigs are not as expected."
  }
  assert {
    condition     = muster_managed_cluster.this["paris"].labels.region == "eu" && muster_managed_cluster.this["paris"].annotations.owner == "shop" && muster_managed_cluster.this["paris"].cluster_set == "production"
    error_message = "Labels, annotations or set are not as expected."
  }
}

run "no_clusters" {
  variables {
    clusters = {}
  }
  assert {
    condition     = output.clusters == {} && output.join_commands == {}
    error_message = "There are clusters."
  }
}
