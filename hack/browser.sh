#!/usr/bin/env bash
# browser.sh prints where a Chromium is, for the tests of the hub's web page. Root of a
# machine with apt gets one installed where there is none.
set -euo pipefail
find_browser() {
    for name in chromium chromium-browser google-chrome chrome; do
        command -v "$name" && return
    done
    return 1
}
if find_browser; then
    exit
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends chromium; } >&2
    find_browser && exit
fi
echo "there is no Chromium on the PATH: install one, such as with apt-get install chromium" >&2
exit 1
