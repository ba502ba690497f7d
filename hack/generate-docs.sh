#!/usr/bin/env bash
# generate-docs.sh: writes docs/ from the provider's schema, templates/ and examples/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin/tools/tfplugindocs generate --provider-name muster --rendered-provider-name muster
bin/tools/tfplugindocs validate --provider-name muster
