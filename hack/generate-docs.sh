#!/usr/bin/env bash
# generate-docs.sh: writes docs/ from the provider's schema, templates/ and examples/,
# and the tables of packages in ARCHITECTURE.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0
tf=$(hack/terraform.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tfplugindocs would download a Terraform where none is on the PATH. Any that is
# there can write the schema, and so can OpenTofu.
go build -o "$work/terraform-provider-muster" .
cat >"$work/terraform.rc" <<RC
provider_installation {
  dev_overrides {
    "registry.terraform.io/muster-fleet/muster" = "$work"
    "registry.opentofu.org/muster-fleet/muster" = "$work"
  }
}
RC
cp examples/provider/provider.tf "$work"
TF_CLI_CONFIG_FILE=$work/terraform.rc CHECKPOINT_DISABLE=1 "$tf" -chdir="$work" providers schema -json |
    sed -E 's#"registry\.[a-z.]+/muster-fleet/muster"#"muster"#' >"$work/schema.json"

tfplugindocs() {
    local action=$1
    go tool -modfile=hack/tools/go.mod tfplugindocs "$action" \
        --provider-name muster --providers-schema "$work/schema.json" "${@:2}"
}
tfplugindocs generate --rendered-provider-name muster
tfplugindocs validate

go test ./tests/docs -run '^TestPackages$' -update
