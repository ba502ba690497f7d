variables {
  name                  = "paris"
  endpoint              = "https://0123456789ABCDEF.gr7.eu-west-3.eks.amazonaws.com"
  certificate_authority = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
}

run "the_smallest" {
  command = plan

  assert {
    condition     = output.connection.host == var.endpoint
    error_message = "The host is not the endpoint."
  }
  assert {
    condition     = startswith(output.connection.cluster_ca_certificate, "-----BEGIN CERTIFICATE-----")
    error_message = "The certificate is not decoded."
  }
  assert {
    condition     = output.connection.exec.args == ["eks", "get-token", "--output", "json", "--cluster-name", "paris"]
    error_message = "The arguments of aws are not as expected."
  }
  assert {
    condition     = output.cluster.labels == tomap({ cloud = "aws" }) && output.cluster.cluster_set == null
    error_message = "Labels or set are not the defaults."
  }
}

run "everything" {
  command = plan

  variables {
    region      = "eu-west-3"
    profile     = "fleet"
    role_arn    = "arn:aws:iam::123456789012:role/fleet"
    cluster_set = "production"
    labels      = { region = "france", team = "shop" }
  }

  assert {
    condition     = join(" ", slice(output.connection.exec.args, 6, 12)) == "--region eu-west-3 --profile fleet --role-arn arn:aws:iam::123456789012:role/fleet"
    error_message = "Region, profile or role are not passed on."
  }
  assert {
    condition     = output.cluster.labels == tomap({ cloud = "aws", region = "france", team = "shop" })
    error_message = "The caller's labels do not take precedence."
  }
  assert {
    condition     = output.cluster.cluster_set == "production"
    error_message = "The set is not passed on."
  }
}

run "mistakes" {
  command = plan

  variables {
    name                  = "-paris"
    endpoint              = "0123456789ABCDEF.gr7.eu-west-3.eks.amazonaws.com"
    certificate_authority = "-----BEGIN CERTIFICATE-----"
    role_arn              = "fleet"
  }

  expect_failures = [var.name, var.endpoint, var.certificate_authority, var.role_arn]
}
