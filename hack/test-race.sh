#!/usr/bin/env bash
# test-race.sh: runs tests with the race detector, which needs a C compiler: those
# of the packages that have goroutines, locks or channels, in the code or in the
# tests. Left out are packages that link the control plane, as that takes a quarter
# of an hour to compile for it, and acceptance tests: they start processes of their
# own, without the detector.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
concurrent='\bgo (func\b|[a-zA-Z.]+\()|\bchan\b|"sync"|"sync/atomic"|/errgroup"|t\.Parallel\(\)'

packages=()
while read -r package dir dependencies; do
    case $package in */tests/*) continue ;; esac
    case " $dependencies" in *' k8s.io/kubernetes/'*) continue ;; esac
    if grep -qE "$concurrent" "$dir"/*.go; then
        packages+=("${package%.test}")
    fi
done < <(CGO_ENABLED=0 go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{.Dir}} {{join .Deps " "}}{{end}}' ./... | grep -F '.test ')
CGO_ENABLED=1 TF_ACC='' exec go test -race -vet=off -timeout 20m "${packages[@]}"
