# Every attribute of an entry arrives at the resource that it belongs to, and what no
# resource has is an error that names the cluster and the attribute.
mock_provider "muster" {}

variables {
  clusters = {
    paris = {
      connection = {
        host                     = "https://paris.example.com:6443"
        config_paths             = ["a.kubeconfig", "b.kubeconfig"]
        config_context_auth_info = "admin"
        username                 = "admin"
        password                 = "secret"
        impersonate              = { user = "deployer", groups = ["fleet"], extra = { team = ["a"] } }
      }
      cluster_uid            = "3bbe0b8e"
      labels                 = { region = "eu" }
      annotations            = { owner = "shop" }
      cluster_set            = "production"
      client_id              = "store-17"
      client_configs         = [{ url = "https://paris.example.com:6443" }]
      taints                 = [{ key = "example.com/new", effect = "NoSelect" }]
      lease_duration_seconds = 30
      adopt                  = true
      force_conflicts        = false
      acceptance = {
        approve_csr      = true
        approve_csr_name = "csr-1"
        requesters       = ["jo"]
        adopt            = true
        force_conflicts  = true
      }
      image = "registry.example.com/agent:v2"
      args  = ["-v=2"]
      agent = {
        namespace           = "fleet-agent"
        image_pull_policy   = "Always"
        image_pull_secrets  = ["registry"]
        labels              = { team = "a" }
        annotations         = { scrape = "true" }
        env                 = { HTTPS_PROXY = "http://proxy.example.com:3128" }
        node_selector       = { infra = "true" }
        affinity            = { node_affinity = { required_during_scheduling_ignored_during_execution = { node_selector_terms = [{ match_expressions = [{ key = "arch", operator = "In", values = ["arm64"] }] }] } } }
        tolerations         = [{ key = "infra", operator = "Exists" }, { key = "x", value = "y", effect = "NoSchedule" }]
        resources           = { requests = { cpu = "50m" } }
        host_network        = true
        priority_class_name = "system-cluster-critical"
        user_access         = true
        tunnels             = true
      }
      hub_server            = "https://paris-gateway.example.com"
      bootstrap             = { ttl = "30m", cluster_ca_certificate = null }
      keep_works_on_destroy = true
    }
    lost = { connection = { kubeconfig_path = "lost.kubeconfig" }, gone = true }
    rome = { connection = { kubeconfig_path = "rome.kubeconfig" }, wait = false, bootstrap = { version = 7, enabled = false } }
    lima = {
      connection = {
        host = "https://lima.example.com:6443"
        exec = { api_version = "client.authentication.k8s.io/v1", command = "login", args = ["lima"] }
      }
    }
    oslo = { connection = { in_cluster = true }, agent = null, labels = null }
  }
  bootstrap_kubeconfigs = {}
  tokens = {
    factory = { ttl = "72h", client_ids = ["store-17"], allowed_labels = ["site"], max_clusters = 3, cluster_labels = { env = "edge" }, description = "factory" }
    edge    = { managed_cluster = "edge" }
    both    = { managed_clusters = ["a", "b"] }
  }
  bootstrap            = { credential = "service_account", ttl = "2h" }
  hub_server           = "https://hub.example.com"
  bootstrap_version    = 2
  agent_timeout        = "3m"
  registration_timeout = "4m"
  acceptance_timeout   = "5m"
  detach_timeout       = "6m"
}

run "cluster" {
  assert {
    condition = jsonencode([for key in ["name", "labels", "annotations", "cluster_set", "client_id", "client_configs", "taints", "lease_duration_seconds", "adopt", "force_conflicts", "timeouts"] : muster_managed_cluster.this["paris"][key]]) == jsonencode([
      "paris", { region = "eu" }, { owner = "shop" }, "production", "store-17", [{ ca_bundle = null, url = "https://paris.example.com:6443" }],
      [{ effect = "NoSelect", key = "example.com/new", value = null }], 30, true, false, { delete = "6m" },
    ])
    error_message = "The cluster is not as expected."
  }
  assert {
    condition = jsonencode([for key in ["accepted", "approve_csr", "approve_csr_name", "requesters", "adopt", "force_conflicts", "timeouts"] : muster_cluster_acceptance.this["paris"][key]]) == jsonencode([
      true, true, "csr-1", ["jo"], true, true, { create = "5m", delete = "5m", update = "5m" },
    ])
    error_message = "The acceptance is not as expected."
  }
}

run "agent" {
  assert {
    condition = alltrue([for key, value in var.clusters.paris.connection :
    jsonencode({ for k, v in try({ for a, b in muster_klusterlet.this["paris"].cluster_connection[key] : a => b if b != null }, { it = muster_klusterlet.this["paris"].cluster_connection[key] }) : k => v }) == jsonencode(try({ for k, v in value : k => v }, { it = value }))])
    error_message = "The connection does not arrive."
  }
  assert {
    condition = jsonencode([for key in ["cluster_uid", "image", "args", "namespace", "image_pull_policy", "image_pull_secrets", "labels", "annotations", "env", "node_selector", "host_network", "priority_class_name", "user_access", "tunnels", "keep_works_on_destroy", "wait_for_bootstrap", "timeouts"] : muster_klusterlet.this["paris"][key]]) == jsonencode([
      "3bbe0b8e", "registry.example.com/agent:v2", ["-v=2"], "fleet-agent", "Always", ["registry"], { team = "a" }, { scrape = "true" }, { HTTPS_PROXY = "http://proxy.example.com:3128" },
      { infra = "true" }, true, "system-cluster-critical", true, true, true, true, { create = "3m", delete = "6m", update = "3m" },
    ])
    error_message = "The agent is not as expected."
  }
  assert {
    condition = alltrue([
      one(one(muster_klusterlet.this["paris"].affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms).match_expressions).values == tolist(["arm64"]),
      muster_klusterlet.this["paris"].tolerations[*].key == tolist(["infra", "x"]),
      muster_klusterlet.this["paris"].resources.requests == tomap({ cpu = "50m" }),
    ])
    error_message = "Affinity, tolerations or resources do not arrive."
  }
  assert {
    condition = jsonencode(muster_klusterlet.this["paris"].bootstrap) == jsonencode({
      cluster_ca_certificate = null, credential = "service_account", enabled = null, server = "https://paris-gateway.example.com", ttl = "30m", version = 2
    })
    error_message = "The bootstrap kubeconfig is not as expected."
  }
  assert {
    condition     = muster_klusterlet.this["rome"].bootstrap.server == "https://hub.example.com" && muster_klusterlet.this["rome"].bootstrap.version == 7 && !muster_klusterlet.this["rome"].bootstrap.enabled && muster_klusterlet.this["lima"].cluster_connection.exec.args == tolist(["lima"])
    error_message = "What an entry says of its bootstrap kubeconfig does not take precedence."
  }
  assert {
    condition     = muster_managed_cluster.this["lost"].gone && !muster_klusterlet.this["rome"].wait_for_bootstrap && keys(muster_cluster_registration.this) == ["lima", "oslo", "paris"] && muster_cluster_registration.this["oslo"].timeouts.create == "4m"
    error_message = "What is waited for is not as expected."
  }
}

run "tokens" {
  assert {
    condition = jsonencode([for key in ["ttl", "client_ids", "allowed_labels", "max_clusters", "cluster_labels", "description", "managed_cluster"] : muster_bootstrap_token.this["factory"][key]]) == jsonencode([
      "72h", ["store-17"], ["site"], 3, { env = "edge" }, "factory", null,
    ])
    error_message = "The token is not as expected."
  }
  assert {
    condition     = muster_bootstrap_token.this["edge"].managed_cluster == "edge" && muster_bootstrap_token.this["both"].managed_clusters == toset(["a", "b"]) && keys(output.tokens) == ["both", "edge", "factory"]
    error_message = "The tokens are not as expected."
  }
}

run "mistakes" {
  command = plan

  variables {
    clusters             = { paris = { labls = {} }, Rome = {} }
    tokens               = { edge = { managedcluster = "edge" } }
    bootstrap            = { credentials = "service_account" }
    hub_server           = "hub.example.com"
    bootstrap_version    = 0.5
    agent_timeout        = "2 minutes"
    registration_timeout = "1d"
    acceptance_timeout   = ""
    detach_timeout       = "x"
  }

  expect_failures = [
    var.clusters, var.tokens, var.bootstrap, var.hub_server, var.bootstrap_version,
    var.agent_timeout, var.registration_timeout, var.acceptance_timeout, var.detach_timeout,
  ]
}
