# For a GitOps repository. The Secret with the bootstrap kubeconfig is not among
# the objects and comes from somewhere else.
output "paris" {
  value = join("---\n", [
    for object in provider::muster::klusterlet_manifests({ cluster_name = "paris" }) : yamlencode(object)
  ])
}
