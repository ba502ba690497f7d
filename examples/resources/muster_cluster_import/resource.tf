# The hub installs the agent through the kubeconfig, and forgets it when the cluster has
# joined. Nothing of it is in the state.
variable "paris_kubeconfig" {
  description = "Kubeconfig of a user with the role cluster-admin, with everything in it."
  type        = string
  ephemeral   = true
}

resource "muster_cluster_import" "paris" {
  name                  = "paris"
  kubeconfig_wo         = var.paris_kubeconfig
  kubeconfig_wo_version = 1

  accept         = true
  cluster_set    = "eu"
  cluster_labels = { region = "eu" }

  agent = {
    env         = { HTTPS_PROXY = "http://proxy.example.com:3128" }
    tolerations = [{ operator = "Exists" }]
    resources   = { requests = { cpu = "50m", memory = "128Mi" } }
  }

  wait = { available = true }
}

# A cluster that reaches the hub under another name, and whose Secret somebody else puts
# into the hub's namespace muster-imports. The hub keeps it and repairs the agent.
resource "muster_cluster_import" "edge" {
  name              = "edge"
  kubeconfig_secret = "edge-kubeconfig"
  forget_after_join = false
  accept            = true
  publish_server    = true # users reach the cluster where the hub does

  endpoint = {
    server = "https://hub.example.com"
    trust  = "System"
  }
}
