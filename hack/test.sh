#!/usr/bin/env bash
# test.sh PACKAGE...: runs tests, acceptance tests included, which start the hubs
# and clusters that they need. Ends on the test runner's own summary.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0 TF_ACC=1
export TF_CLI_CONFIG_FILE=/dev/null # not the developer's own

# Acceptance tests drive a real Terraform or OpenTofu. Each resolves the provider's
# short name in a registry of its own.
if [ -z "${TF_ACC_TERRAFORM_PATH:-}" ]; then
    TF_ACC_TERRAFORM_PATH=$(hack/terraform.sh)
fi
export TF_ACC_TERRAFORM_PATH
if "$TF_ACC_TERRAFORM_PATH" version | grep -q '^OpenTofu'; then
    export TF_ACC_PROVIDER_HOST=registry.opentofu.org
fi

# The tests that run muster or a control plane as a process share one binary of each.
go build -o bin/ ./runtime/cmd/muster ./internal/testkit/testserver
export MUSTER_BIN=$PWD/bin/muster MUSTER_TESTSERVER_BIN=$PWD/bin/testserver

# make lint vets, and more than go test would.
exec go test -vet=off -timeout 30m "$@"
