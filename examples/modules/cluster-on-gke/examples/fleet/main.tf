terraform {
  required_version = ">= 1.11"
  required_providers {
    google = { source = "hashicorp/google" }
    muster = { source = "muster-fleet/muster", version = "~> 0.1" }
  }
}

provider "google" {
  project = "example"
}

provider "muster" {
  kubeconfig_path = "~/.kube/hub.kubeconfig"
}

# An existing cluster.
data "google_container_cluster" "paris" {
  name     = "paris"
  location = "europe-west9"
}

# A new one. Its endpoint is unknown until it is created: one apply creates the
# cluster and brings it into the fleet.
resource "google_container_cluster" "milan" {
  name             = "milan"
  location         = "europe-west8"
  enable_autopilot = true
}

module "gke" {
  source   = "github.com/muster-fleet/terraform-provider-muster//examples/modules/cluster-on-gke?ref=v0.1.0"
  for_each = { paris = data.google_container_cluster.paris, milan = google_container_cluster.milan }

  endpoint              = each.value.endpoint
  certificate_authority = each.value.master_auth[0].cluster_ca_certificate
  location              = each.value.location
  labels                = { environment = "production" }
}

module "fleet" {
  source   = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"
  clusters = { for name, cluster in module.gke : name => cluster.cluster }
}
