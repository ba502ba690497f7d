#!/usr/bin/env bash
# test.sh PACKAGE...: runs tests, acceptance tests included, which start the hubs
# and clusters that they need. Ends on the test runner's own summary.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0 TF_ACC=1

# Acceptance tests drive a real Terraform.
if [ -z "${TF_ACC_TERRAFORM_PATH:-}" ]; then
    TF_ACC_TERRAFORM_PATH=$(command -v terraform) || {
        echo "terraform is not on the PATH: install Terraform 1.11 or later, or set TF_ACC_TERRAFORM_PATH to its path" >&2
        exit 1
    }
    export TF_ACC_TERRAFORM_PATH
fi

# The tests that run muster as a process share one binary.
go build -o bin/muster ./runtime/cmd/muster
export MUSTER_BIN=$PWD/bin/muster

exec go test -timeout 30m "$@"
