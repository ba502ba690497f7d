#!/usr/bin/env bash
# generate-api.sh: writes everything that is derived from the Go types in runtime/api.
#
#   runtime/api/**/zz_generated.deepcopy.go   DeepCopy methods
#   runtime/api/crds/*.yaml                   CustomResourceDefinitions; the descriptions are the types' comments
#   runtime/api/crds/optional/*.yaml          those of kinds behind a feature gate, which are not in the contract
#
# Run it after every change of a type, a comment or a marker, and commit what it
# writes. It is idempotent: a second run changes nothing. CI runs `make
# generate-check`. The test in runtime/api/crds compares the outcome with the wire
# contract.
#
# The generator's version is in hack/tools/go.mod.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0 # one way to build everything, so that the build cache is shared
export LC_ALL=C

# runtime/api/crds is left out: it embeds what is generated here, so it may not
# compile before.
packages='./runtime/api/cluster/...;./runtime/api/work/...;./runtime/api/addon/...'
optional='./runtime/api/multicluster/...;./runtime/api/muster/...'
others='./runtime/api/about/...' # kinds that are only read
crds=runtime/api/crds

controller_gen() { go tool -modfile=hack/tools/go.mod controller-gen "$@"; }

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

controller_gen object paths="$packages;$optional;$others"
controller_gen crd paths="$packages" output:crd:dir="$fresh"
controller_gen crd paths="$optional" output:crd:dir="$fresh/optional"

# Replace rather than overwrite, so that the file of a removed kind goes too.
mkdir -p "$crds/optional"
rm -f "$crds"/*.yaml "$crds"/optional/*.yaml
cp "$fresh"/*.yaml "$crds"/
cp "$fresh"/optional/*.yaml "$crds"/optional/
chmod 644 "$crds"/*.yaml "$crds"/optional/*.yaml
