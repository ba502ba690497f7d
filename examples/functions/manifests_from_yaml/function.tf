# All documents of all files of a directory, in the order of their names.
resource "muster_manifest_work" "shop" {
  managed_cluster = "paris"
  name            = "shop"
  objects = provider::muster::manifests_from_yaml({
    for name in fileset(path.module, "manifests/*.yaml") : name => file("${path.module}/${name}")
  })
}

# Text from a template or another provider, with a label on each object.
locals {
  objects = provider::muster::manifests_from_yaml(<<-YAML
    apiVersion: v1
    kind: Namespace
    metadata: {name: shop}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: settings, namespace: shop}
    data: {answer: "42"}
  YAML
  )
}

output "labelled" {
  value = [for o in local.objects : merge(o, { metadata = merge(o.metadata, { labels = { team = "shop" } }) })]
}
