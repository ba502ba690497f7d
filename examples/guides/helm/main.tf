terraform {
  required_version = ">= 1.11"
  required_providers {
    helm   = { source = "hashicorp/helm" }
    muster = { source = "muster-fleet/muster", version = "~> 0.1" }
  }
}

provider "muster" {
  kubeconfig_path = "~/.kube/hub.kubeconfig"
}

variable "clusters" {
  description = "The clusters that get the chart. They have joined."
  type        = set(string)
  default     = ["paris"]
}

variable "chart_version" {
  description = "The version of the chart."
  type        = string
  default     = "1.4.2"
}

locals {
  release   = "shop"
  namespace = "shop"
}

# Renders the chart where Terraform runs. No cluster is asked, so the chart is given what
# it would find there.
data "helm_template" "shop" {
  name       = local.release
  namespace  = local.namespace
  repository = "https://charts.example.com"
  chart      = "shop"
  version    = var.chart_version

  kube_version = "1.34.0"
  api_versions = ["monitoring.coreos.com/v1/ServiceMonitor"]
  skip_tests   = true
  values       = [yamlencode({ replicaCount = 2 })]
}

locals {
  # By the file of the template, such as templates/web.yaml or charts/cache/templates/x.yaml.
  # This leaves out documents without an object.
  rendered = { for file, text in data.helm_template.shop.manifests : file => provider::muster::manifests_from_yaml(text) }

  # These kinds have no namespace. The others get that of the release where the chart
  # leaves it to Helm.
  without_namespace = [
    "APIService", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "IngressClass",
    "MutatingWebhookConfiguration", "Namespace", "PersistentVolume", "PriorityClass", "RuntimeClass",
    "StorageClass", "ValidatingWebhookConfiguration",
  ]
  objects = flatten([for file, objects in local.rendered : [for object in objects : {
    # The chart itself, and each of its subcharts, is a work of its own.
    part  = try(regex("^charts/([^/]+)/", file)[0], local.release)
    hooks = try(split(",", replace(object.metadata.annotations["helm.sh/hook"], " ", "")), [])
    crd   = object.kind == "CustomResourceDefinition"
    text = jsonencode(merge(object, {
      metadata = merge(
        contains(local.without_namespace, object.kind) ? {} : { namespace = local.namespace },
        object.metadata,
      )
    }))
  }]])

  # Definitions in the folder crds of the chart, and those among its templates.
  definitions = concat(
    [for object in provider::muster::manifests_from_yaml(data.helm_template.shop.crds) : jsonencode(object)],
    [for object in local.objects : object.text if object.crd],
  )
  # What Helm would run before the objects are there, and before they change.
  before = [for object in local.objects : object.text if length(setintersection(object.hooks, ["pre-install", "pre-upgrade"])) > 0]
  # Everything else but hooks, by part.
  parts = { for object in local.objects : object.part => object.text... if length(object.hooks) == 0 && !object.crd }

  works = { for pair in setproduct(var.clusters, keys(local.parts)) : join("/", pair) => { cluster = pair[0], part = pair[1] } }
}

# Definitions, and the namespace. Helm never removes definitions, as all objects of
# their kinds go with them; the namespace stays, too.
resource "muster_manifest_work" "definitions" {
  for_each = var.clusters

  managed_cluster = each.key
  name            = "${local.release}-definitions"
  manifests = concat(
    [yamlencode({ apiVersion = "v1", kind = "Namespace", metadata = { name = local.namespace } })],
    local.definitions,
  )
  delete_option = { propagation_policy = "Orphan" }
  wait          = { conditions = ["Applied"] }
}

# Jobs of hooks, once for each version of the chart.
resource "muster_manifest_work" "before" {
  for_each = length(local.before) == 0 ? [] : var.clusters

  managed_cluster = muster_manifest_work.definitions[each.key].managed_cluster
  name            = "${local.release}-before-${replace(var.chart_version, ".", "-")}"
  manifests       = local.before

  manifest_configs = [{
    resource_identifier = { group = "batch", resource = "jobs", name = "*", namespace = local.namespace }
    condition_rules     = [{ condition = "Complete", type = "WellKnownConditions" }]
  }]
  wait = { conditions = ["Complete"] }
}

resource "muster_manifest_work" "shop" {
  for_each = local.works

  managed_cluster = each.value.cluster
  name            = each.value.part == local.release ? local.release : "${local.release}-${each.value.part}"
  manifests       = local.parts[each.value.part]
  wait            = { conditions = ["Available"] }

  # Applied after these, and removed before them.
  depends_on = [muster_manifest_work.definitions, muster_manifest_work.before]
}

output "notes" {
  description = "What the chart says to its user."
  value       = data.helm_template.shop.notes
}
