terraform {
  required_version = ">= 1.11"
  required_providers {
    aws    = { source = "hashicorp/aws" }
    muster = { source = "muster-fleet/muster", version = "~> 0.1" }
  }
}

provider "aws" {
  region = "eu-west-3"
}

provider "muster" {
  kubeconfig_path = "~/.kube/hub.kubeconfig"
}

# An existing cluster.
data "aws_eks_cluster" "paris" {
  name = "paris"
}

# A new one. Its endpoint is unknown until it is created: one apply creates the
# cluster and brings it into the fleet.
resource "aws_eks_cluster" "lyon" {
  name     = "lyon"
  role_arn = "arn:aws:iam::123456789012:role/eks-lyon"

  vpc_config {
    subnet_ids = ["subnet-0a1b2c3d", "subnet-4e5f6a7b"]
  }
}

module "eks" {
  source   = "github.com/muster-fleet/terraform-provider-muster//examples/modules/cluster-on-eks?ref=v0.1.0"
  for_each = { paris = data.aws_eks_cluster.paris, lyon = aws_eks_cluster.lyon }

  name                  = each.value.name
  endpoint              = each.value.endpoint
  certificate_authority = each.value.certificate_authority[0].data
  region                = "eu-west-3"
  labels                = { environment = "production" }
}

module "fleet" {
  source   = "github.com/muster-fleet/terraform-provider-muster//examples/modules/fleet-onboarding?ref=v0.1.0"
  clusters = { for name, cluster in module.eks : name => cluster.cluster }
}
