# What teams may be granted in their namespaces.
resource "muster_access_role" "edit" {
  name = "edit"
  rules = [
    {
      api_groups = ["", "apps", "batch"]
      resources  = ["*"]
      verbs      = ["*"]
    },
    {
      api_groups = ["metrics.k8s.io"]
      resources  = ["pods"]
      verbs      = ["get", "list"]
    },
  ]
}

# May be granted in all of a cluster, too.
resource "muster_access_role" "watch_nodes" {
  name                  = "watch-nodes"
  cluster_scope_allowed = true
  rules = [{
    api_groups = [""]
    resources  = ["nodes"]
    verbs      = ["get", "list", "watch"]
  }]
}
