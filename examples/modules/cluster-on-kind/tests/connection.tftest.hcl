run "a_kubeconfig" {
  command = plan

  variables {
    kubeconfig  = yamlencode({ clusters = [{ name = "kind", cluster = { server = "https://127.0.0.1:40001" } }] })
    cluster_set = "laptop"
    labels      = { team = "shop" }
  }

  assert {
    condition     = output.connection.kubeconfig == var.kubeconfig
    error_message = "The kubeconfig is not passed on."
  }
  assert {
    condition     = output.cluster.labels == tomap({ cloud = "kind", team = "shop" }) && output.cluster.cluster_set == "laptop"
    error_message = "The labels or the set are not as expected."
  }
}

run "a_path" {
  command = plan

  variables {
    kubeconfig = "~/.kube/kind.kubeconfig"
  }

  expect_failures = [var.kubeconfig]
}
