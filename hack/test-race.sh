#!/usr/bin/env bash
# test-race.sh: runs tests with the race detector, which needs a C compiler: those
# of every package that does not link the control plane, as that takes a quarter of
# an hour to compile for it. Acceptance tests are left to test.sh: they start
# processes of their own, without the detector.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

light=()
while read -r package; do
    case $package in */tests/*) continue ;; esac
    dependencies=$(CGO_ENABLED=0 go list -test -deps "$package")
    case $dependencies in *$'\n'k8s.io/kubernetes/*) continue ;; esac
    light+=("$package")
done < <(CGO_ENABLED=0 go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
CGO_ENABLED=1 TF_ACC='' exec go test -race -timeout 20m "${light[@]}"
