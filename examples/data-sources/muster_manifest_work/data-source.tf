data "muster_manifest_work" "web" {
  managed_cluster = "paris"
  name            = "web"
}

# Objects that the agent could not apply, and why.
output "failures" {
  value = {
    for r in data.muster_manifest_work.web.resources : "${r.kind} ${r.name}" => [
      for c in r.conditions : c.message if c.type == "Applied" && c.status != "True"
    ]
  }
}
