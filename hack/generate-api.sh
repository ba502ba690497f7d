#!/usr/bin/env bash
# generate-api.sh: writes everything that is derived from the Go types in runtime/api.
#
#   runtime/api/**/zz_generated.deepcopy.go   DeepCopy methods
#   runtime/api/crds/*.yaml                   CustomResourceDefinitions; the descriptions are the types' comments
#   runtime/api/crds/optional/*.yaml          those that a hub serves only when told to, and that are not in the contract
#
# Run it after every change of a type, a comment or a marker, and commit what it
# writes. It is idempotent: a second run changes nothing. CI runs it and then
# `git diff --exit-code`. The test in runtime/api/crds compares the outcome with the
# wire contract.
#
# The generator runs through `go run` at a pinned version, so nothing has to be
# installed and go.mod does not know of it.
set -euo pipefail

# v0.23.0 is built on Kubernetes 0.37, like this module, and wants Go 1.26.
controller_gen=sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0 # one way to build everything, so that the build cache is shared
export LC_ALL=C

# runtime/api/crds is left out: it embeds what is generated here, and so does not
# compile before.
packages='./runtime/api/cluster/...;./runtime/api/work/...;./runtime/api/addon/...'
optional='./runtime/api/multicluster/...'
others='./runtime/api/about/...' # kinds that are only read
crds=runtime/api/crds

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

go run "$controller_gen" object paths="$packages;$optional;$others"
go run "$controller_gen" crd paths="$packages" output:crd:dir="$fresh"
go run "$controller_gen" crd paths="$optional" output:crd:dir="$fresh/optional"

# Replace rather than overwrite, so that the file of a kind that is gone goes too.
mkdir -p "$crds/optional"
rm -f "$crds"/*.yaml "$crds"/optional/*.yaml
cp "$fresh"/*.yaml "$crds"/
cp "$fresh"/optional/*.yaml "$crds"/optional/
chmod 644 "$crds"/*.yaml "$crds"/optional/*.yaml
