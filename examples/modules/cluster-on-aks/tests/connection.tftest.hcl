variables {
  host                  = "https://paris-0123.hcp.francecentral.azmk8s.io:443"
  certificate_authority = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
}

run "the_smallest" {
  command = plan

  assert {
    condition     = output.connection.host == var.host && output.connection.exec.command == "kubelogin"
    error_message = "The host or the program is not as expected."
  }
  assert {
    condition     = startswith(output.connection.cluster_ca_certificate, "-----BEGIN CERTIFICATE-----")
    error_message = "The certificate is not decoded."
  }
  assert {
    condition     = join(" ", output.connection.exec.args) == "get-token --login azurecli --server-id 6dae42f8-4368-4678-94ff-3960e28e3630"
    error_message = "The arguments of kubelogin are not as expected."
  }
}

run "in_a_pipeline" {
  command = plan

  variables {
    login       = "workloadidentity"
    location    = "francecentral"
    cluster_set = "production"
    labels      = { team = "shop" }
  }

  assert {
    condition     = output.connection.exec.args[2] == "workloadidentity"
    error_message = "The login is not passed on."
  }
  assert {
    condition     = output.cluster.labels == tomap({ cloud = "azure", region = "francecentral", team = "shop" }) && output.cluster.cluster_set == "production"
    error_message = "The labels or the set are not as expected."
  }
}

run "mistakes" {
  command = plan

  variables {
    host                  = "paris-0123.hcp.francecentral.azmk8s.io"
    certificate_authority = "-----BEGIN CERTIFICATE-----"
    login                 = "interactive"
    server_id             = "AKS"
  }

  expect_failures = [var.host, var.certificate_authority, var.login, var.server_id]
}
