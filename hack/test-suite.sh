#!/usr/bin/env bash
# test-suite.sh SUITE...: runs suites one after the other, and stops after one that
# fails. Ends on the ten slowest packages and tests, and on the test runner's own
# lines. With LIST=1 it only lists the packages.
#
#   fast     unit, controller and provider tests: all packages that are not in system.
#            Where a C compiler is there, those in race run with the race detector, and
#            without it only for their acceptance tests.
#   race     packages of fast that have goroutines, locks or channels, with the race
#            detector. Left out are packages that link the control plane, as that takes
#            a quarter of an hour to compile for it, and acceptance tests: they start
#            processes of their own, without the detector. Left out, until it is
#            known how long they take with it, are packages that use testenv.
#   system   the whole system: all packages in tests, but for those about documents and
#            the provider's tests in process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0
concurrent='\bgo (func\b|[a-zA-Z.]+\()|\bchan\b|"sync"|"sync/atomic"|/errgroup"|t\.Parallel\(\)'

race=() acceptance=() plain=() system=()
while read -r package dir dependencies; do
    package=${package%.test}
    case $package in
    */tests/docs | */tests/inprocess) ;;
    */tests/*) system+=("$package") && continue ;;
    esac
    case " $dependencies " in
    *' k8s.io/kubernetes/'* | */internal/testkit/testenv\ *) plain+=("$package") && continue ;;
    esac
    if ! find "$dir" -maxdepth 1 -name '*.go' ! -name '*_acc_test.go' -exec grep -qE "$concurrent" {} +; then
        plain+=("$package") && continue
    fi
    race+=("$package")
    case " $dependencies " in
    */internal/testkit/testhub\ * | */terraform-plugin-testing/*) acceptance+=("$package") ;;
    esac
done < <(go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{.Dir}} {{join .Deps " "}}{{end}}' ./... | grep -F '.test ')

run_race() {
    CGO_ENABLED=1 TF_ACC='' go test -json -race -vet=off -timeout 20m "${race[@]}"
}

run() {
    case $1 in
    race) run_race ;;
    system) hack/test.sh -json "${system[@]}" ;;
    fast)
        if ! command -v cc >/dev/null; then
            echo "no C compiler: the race detector is left out" >&2
            hack/test.sh -json "${plain[@]}" "${race[@]}"
            return
        fi
        local failed=0
        run_race || failed=1
        hack/test.sh -json "${plain[@]}" "${acceptance[@]}" || failed=1
        return $failed
        ;;
    esac
}

for suite in "$@"; do
    case $suite in fast | race | system) ;; *) echo "no suite is called $suite: fast, race or system" >&2 && exit 2 ;; esac
done
if [ -n "${LIST:-}" ]; then
    for suite in "$@"; do
        case $suite in
        fast) printf '%s\n' "${plain[@]}" "${race[@]}" ;;
        race) printf '%s\n' "${race[@]}" ;;
        system) printf '%s\n' "${system[@]}" ;;
        esac
    done
    exit
fi

mkdir -p bin/tools
go build -o bin/tools/testreport ./hack/testreport
for suite in "$@"; do
    run "$suite" || exit 1
done | bin/tools/testreport
