terraform {
  required_version = ">= 1.11"
  required_providers {
    azurerm = { source = "hashicorp/azurerm" }
    muster  = { source = "muster-fleet/muster", version = "~> 0.1" }
  }
}

provider "azurerm" {
  features {}
}

provider "muster" {
  kubeconfig_path = "~/.kube/hub.kubeconfig"
}

# An existing cluster.
data "azurerm_kubernetes_cluster" "paris" {
  name                = "paris"
  resource_group_name = "clusters"
}

# A new one. Its address is unknown until it is created: one apply creates the
# cluster and brings it into the fleet.
resource "azurerm_kubernetes_cluster" "dublin" {
  name                = "dublin"
  resource_group_name = "clusters"
  location            = "northeurope"
  dns_prefix          = "dublin"

  default_node_pool {
    name       = "default"
    vm_size    = "Standard_D2s_v5"
    node_count = 1
  }

  identity {
    type = "SystemAssigned"
  }
}

module "aks" {
  source   = "github.com/muster-fleet/terraform-provider-muster//examples/modules/cluster-on-aks?ref=v0.1.0"
  for_each = { paris = data.azurerm_kubernetes_cluster.paris, dublin = azurerm_kubernetes_cluster.dublin }

  # Address and certificates are no secrets, but they stand in a sensitive attribute,
  # beside keys. The labels of a sensitive cluster would be hidden in every plan.
  host                  = nonsensitive(each.value.kube_config[0].host)
  certificate_authority = nonsensitive(each.value.kube_config[0].cluster_ca_certificate)
  location              = each.value.location
  labels                = { environment = "production" }
}

module "fleet" {
  source   = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"
  clusters = { for name, cluster in module.aks : name => cluster.cluster }
}
