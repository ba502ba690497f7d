#!/usr/bin/env bash
# demo.sh up|down DIR: the quickstart on this machine, from nothing to a fleet
# and back. The user's own Terraform configuration is left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
action=$1 dir=$2
config=examples/quickstart

if ! tf=$(hack/terraform.sh); then
    if [ "$action" = down ]; then
        echo "stopping the processes without destroying what Terraform made" >&2
        bin/muster down --data-dir "$dir"
        exit 0
    fi
    exit 1
fi

# Terraform takes the provider that was just built, and asks no registry.
mkdir -p "$dir"
cat >"$dir/terraform.rc" <<RC
provider_installation {
  dev_overrides {
    "registry.terraform.io/muster-fleet/muster" = "$PWD/bin"
    "registry.opentofu.org/muster-fleet/muster" = "$PWD/bin"
  }
  direct {}
}
RC
export TF_CLI_CONFIG_FILE=$PWD/$dir/terraform.rc TF_IN_AUTOMATION=1 CHECKPOINT_DISABLE=1

case $action in
up)
    bin/muster up --data-dir "$dir" --clusters 3
    echo
    echo "$tf apply in $config"
    "$tf" -chdir=$config get >/dev/null
    "$tf" -chdir=$config apply -auto-approve -input=false -compact-warnings
    echo
    bin/muster status --data-dir "$dir"
    cat <<TEXT

The fleet is up. Try:
  export TF_CLI_CONFIG_FILE=\$PWD/$dir/terraform.rc
  $tf -chdir=$config plan
  kubectl --kubeconfig $dir/hub/admin.kubeconfig get managedclusters
  kubectl --kubeconfig $dir/clusters/cluster1/admin.kubeconfig get deployments -A
  make demo-down
TEXT
    ;;
down)
    failed=
    if [ -e $config/terraform.tfstate ]; then
        # Terraform needs the hub to destroy, and it may have been stopped.
        bin/muster up --data-dir "$dir" --clusters 3
        "$tf" -chdir=$config get >/dev/null
        "$tf" -chdir=$config destroy -auto-approve -input=false -compact-warnings || failed=1
    fi
    bin/muster down --data-dir "$dir"
    if [ -n "$failed" ]; then
        echo "$tf destroy failed, see above; all processes are stopped. Remove $dir and $config/terraform.tfstate to start again." >&2
        exit 1
    fi
    rm -rf "$dir" $config/terraform.tfstate $config/terraform.tfstate.backup $config/.terraform
    ;;
*)
    echo "usage: demo.sh up|down DIR" >&2
    exit 2
    ;;
esac
