# One namespace in all European clusters, in which Jo may edit and the on-call group
# may look.
resource "muster_logical_cloud" "prod" {
  namespace         = "team-a"
  name              = "prod"
  placements        = ["europe"]
  cluster_namespace = { name = "team-a-prod", labels = { team = "a" } }

  quotas = {
    main = { "limits.cpu" = "400", "limits.memory" = "1Ti", pods = "200" }
  }

  grants = [
    {
      role  = "edit"
      users = ["jo@example.com"]
    },
    {
      groups = ["on-call"]
      rules = [{
        api_groups = ["", "apps"]
        resources  = ["pods", "pods/log", "deployments"]
        verbs      = ["get", "list", "watch"]
      }]
    },
  ]

  access = { default_lifetime = "4h", max_lifetime = "12h" }
}

# As in EMCO's DCM: the hub makes the keys, and the namespace goes with the cloud.
resource "muster_logical_cloud" "edge" {
  namespace         = "team-a"
  name              = "edge"
  placements        = ["edge"]
  cluster_namespace = { name = "team-a-edge", on_delete = "Delete" }
  grants            = [{ role = "edit", users = ["jo@example.com"] }]
  access            = { key_policy = "HubMade" }
}
