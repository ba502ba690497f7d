#!/usr/bin/env bash
# terraform.sh: prints the path of the Terraform or OpenTofu to use: $TF, or what
# is on the PATH, or an OpenTofu that it builds into bin/tools, so that nothing but
# Go has to be installed.
#
# OpenTofu's go.mod has a replace directive, which `go install …@version` refuses.
# So it is built where the module cache holds it, as its own main module, with the
# dependencies that it was released with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

opentofu=v1.12.6

if [ -n "${TF:-}" ]; then
    command -v "$TF" || {
        echo "$TF is not there: install it, or leave TF out" >&2
        exit 1
    }
    exit
fi
command -v terraform || command -v tofu && exit

built=$PWD/bin/tools/tofu
if ! "$built" version 2>/dev/null | grep -qx "OpenTofu $opentofu"; then
    echo "neither terraform nor tofu is on the PATH: building OpenTofu $opentofu into $built, which takes some minutes" >&2
    module=$(go mod download -json "github.com/opentofu/opentofu@$opentofu" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    GOFLAGS='' CGO_ENABLED=0 go build -C "$module" -mod=readonly -buildvcs=false -o "$built" \
        -ldflags '-s -w -X github.com/opentofu/opentofu/version.dev=no' ./cmd/tofu
fi
echo "$built"
