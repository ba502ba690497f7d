#!/usr/bin/env bash
# test-suite.sh SUITE...: runs suites one after the other, and stops after one that
# fails. Ends on the ten slowest packages and tests, and on the test runner's own
# lines. With LIST=1 it only lists the packages, each behind its suite.
#
#   fast     unit, controller and provider tests: all packages that are not in system.
#            Where a C compiler is there, those in race run with the race detector, and
#            without it only for their acceptance tests and for tests that are shorter
#            with it.
#   race     packages of fast that have goroutines, locks or channels, with the race
#            detector. Left out are packages that link the control plane, as that takes
#            a quarter of an hour to compile for it, and acceptance tests: they start
#            processes of their own, without the detector. Left out, until it is
#            known how long they take with it, are packages that use testenv. Tests
#            that only compute are shorter: testing.Short() is true.
#   system   the whole system: all packages in tests, but for those about documents and
#            the provider's tests in process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0
concurrent='\bgo (func\b|[a-zA-Z.]+\()|\bchan\b|"sync"|"sync/atomic"|/errgroup"|t\.Parallel\(\)'

# The longest packages come first, so that none is alone at the end.
longest='/(provider|provider/examples|internal/klusterlet|internal/expression|scheduling/incremental'
longest+='|agent/work|controllers/addon|runtime/agent|runtime/hub|tests/hostile|tests/e2e|tests/chaos|tests/life)$'
# Tests of the provider, of agents and of controllers wait as much as they compute: two
# more packages than there are processors keep these busy.
packages=$(($(getconf _NPROCESSORS_ONLN) + 2))

race=() again=() plain=() system=()
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
    */internal/testkit/testhub\ * | */terraform-plugin-testing/*) again+=("$package") && continue ;;
    esac
    if grep -qF 'testing.Short()' "$dir"/*_test.go; then
        again+=("$package")
    fi
done < <(go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{.Dir}} {{join .Deps " "}}{{end}}' ./... | grep -F '.test ')

# first are packages, those that take long before the others.
first() {
    printf '%s\n' "$@" | grep -E "$longest" || true
    printf '%s\n' "$@" | grep -vE "$longest" || true
}

run_race() {
    # shellcheck disable=SC2046 # names of packages hold no blanks
    CGO_ENABLED=1 TF_ACC='' go test -json -race -short -vet=off -timeout 20m $(first "${race[@]}")
}

run_plain() {
    # With this, control planes take a seventh less of the processors, and more memory.
    # shellcheck disable=SC2046
    GOGC=300 hack/test.sh -json -p "$packages" $(first "$@")
}

run() {
    case $1 in
    race) run_race ;;
    # These compute more than those of fast, so one package fewer runs at a time.
    # shellcheck disable=SC2046
    system) hack/test.sh -json -p "$((packages - 1))" $(first "${system[@]}") ;;
    fast)
        if ! command -v cc >/dev/null; then
            echo "no C compiler: the race detector is left out" >&2
            run_plain "${plain[@]}" "${race[@]}"
            return
        fi
        local failed=0
        run_race || failed=1
        run_plain "${plain[@]}" "${again[@]}" || failed=1
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
        fast) printf 'fast %s\n' "${plain[@]}" "${race[@]}" ;;
        race) printf 'race %s\n' "${race[@]}" ;;
        system) printf 'system %s\n' "${system[@]}" ;;
        esac
    done
    exit
fi

mkdir -p bin/tools
go build -o bin/tools/testreport ./hack/testreport
for suite in "$@"; do
    run "$suite" || exit 1
done | bin/tools/testreport
