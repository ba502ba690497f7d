# A namespace on the hub for a team's bindings and placements.
resource "muster_namespace" "shop" {
  name   = "shop"
  labels = { team = "shop" }
}

# Referring to the name creates the binding after the namespace, and destroys it
# before.
resource "muster_managed_cluster_set_binding" "shop" {
  namespace   = muster_namespace.shop.name
  cluster_set = "global"
}
