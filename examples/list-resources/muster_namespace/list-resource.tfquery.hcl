list "muster_namespace" "shop" {
  provider = muster

  config {
    name = "shop-*"
  }
}
