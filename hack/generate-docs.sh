#!/usr/bin/env bash
# generate-docs.sh: writes docs/ from the provider's schema, templates/ and examples/,
# the schema's record in provider/cmd/schema/testdata, the tables of packages in
# PACKAGES.md, those in the READMEs of modules, the list of files with long lines, and the
# changelog.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The release that examples and templates name.
go test ./tests/docs -run '^TestRelease$' -update

# The provider describes itself, so that the documents are the same on every
# machine: an older Terraform, and OpenTofu, leave out what they do not know.
go run ./provider/cmd/schema >"$work/schema.json"
go test ./provider/cmd/schema -run '^TestSchemaIsAsRecorded$' -update

tfplugindocs() {
    local action=$1
    go tool -modfile=hack/tools/go.mod tfplugindocs "$action" \
        --provider-name muster --providers-schema "$work/schema.json" "${@:2}"
}
tfplugindocs generate --rendered-provider-name muster
tfplugindocs validate

go test ./tests/docs -run '^Test(Packages|Modules|LineLength|AgentChart|Changelog)$' -update
