data "muster_rendered_manifests" "paris" {
  managed_cluster = "paris"
  manifests = [yamlencode({
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { namespace = "shop", name = "web" }
    data       = { region = "{{REGION}}" }
  })]
  values = [{ name = "REGION", label = "region" }]
}

output "web_in_paris" {
  value = nonsensitive(jsondecode(data.muster_rendered_manifests.paris.rendered[0]).data)
}
