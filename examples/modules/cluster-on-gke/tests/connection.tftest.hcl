variables {
  endpoint              = "34.155.0.1"
  certificate_authority = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
}

run "the_smallest" {
  command = plan

  assert {
    condition     = output.connection.host == "https://34.155.0.1" && output.connection.exec.command == "gke-gcloud-auth-plugin"
    error_message = "The host or the plugin is not as expected."
  }
  assert {
    condition     = startswith(output.connection.cluster_ca_certificate, "-----BEGIN CERTIFICATE-----")
    error_message = "The certificate is not decoded."
  }
  assert {
    condition     = output.cluster.labels == tomap({ cloud = "google" }) && output.cluster.cluster_set == null
    error_message = "Labels or set are not the defaults."
  }
}

run "a_zone_with_the_dns_endpoint" {
  command = plan

  variables {
    endpoint              = "gke-0123456789.europe-west9.gke.goog"
    certificate_authority = null
    location              = "europe-west9-a"
    cluster_set           = "production"
    labels                = { team = "shop" }
  }

  assert {
    condition     = output.connection.host == "https://gke-0123456789.europe-west9.gke.goog" && output.connection.cluster_ca_certificate == null
    error_message = "The DNS endpoint needs no authority of its own."
  }
  assert {
    condition     = output.cluster.labels == tomap({ cloud = "google", region = "europe-west9", team = "shop" })
    error_message = "The labels are not as expected."
  }
}

run "mistakes" {
  command = plan

  variables {
    endpoint              = "https://34.155.0.1"
    certificate_authority = "-----BEGIN CERTIFICATE-----"
    location              = "Paris"
  }

  expect_failures = [var.endpoint, var.certificate_authority, var.location]
}
