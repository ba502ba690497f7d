#!/usr/bin/env bash
# fuzz.sh: runs every fuzz test of the module for FUZZTIME (30s by default).
#
# What a run finds is written to the package's testdata/fuzz, and every plain test
# run repeats it from there: commit it together with the fix.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0 # one way to build everything, so that the build cache is shared

fuzztime=${FUZZTIME:-30s}
count=0
failed=()
while IFS=: read -r file name; do
    package=./$(dirname "$file")
    echo "== $name in $package, $fuzztime"
    count=$((count + 1))
    go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" || failed+=("$name")
done < <(grep -rHo --include='*_test.go' -E '^func Fuzz[A-Za-z0-9_]+' runtime internal provider | sed -E 's/func //' | sort)

if ((count == 0)); then
    echo "no fuzz tests found" >&2
    exit 1
fi
echo "$count fuzz tests, $fuzztime each, ${#failed[@]} failed${failed[*]:+: ${failed[*]}}"
((${#failed[@]} == 0))
