resource "muster_namespace" "addons" {
  name = "addons"
}

# Agents behind a proxy, on the nodes for infrastructure, with images from a mirror.
resource "muster_addon_deployment_config" "edge" {
  namespace = muster_namespace.addons.name
  name      = "edge"

  customized_variables = {
    LOG_LEVEL = "info"
  }

  node_placement = {
    node_selector = { "node-role.kubernetes.io/infra" = "" }
    tolerations   = [{ key = "node-role.kubernetes.io/infra", operator = "Exists" }]
  }

  registries = [{
    source = "quay.io/example"
    mirror = "registry.example.com/mirror"
  }]

  proxy = {
    https    = "http://proxy.example.com:3128"
    no_proxy = [".svc", "10.0.0.0/8", "hub.example.com"]
  }

  resource_requirements = [{
    container_id = "deployments:*:*"
    resources = {
      requests = { cpu = "50m", memory = "64Mi" }
      limits   = { memory = "256Mi" }
    }
  }]
}

# The objects of a template keep the namespaces that the template gives them.
resource "muster_addon_deployment_config" "own_namespaces" {
  namespace               = muster_namespace.addons.name
  name                    = "own-namespaces"
  agent_install_namespace = ""
}
