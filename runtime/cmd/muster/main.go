// Command muster runs the parts of a fleet: its hub, the agents in managed
// clusters, and small clusters for laptops and tests.
package main

import (
	"github.com/spf13/cobra"

	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
)

func main() {
	cli.Main(newRootCommand)
}

// newRootCommand returns muster with all its commands.
func newRootCommand() *cobra.Command {
	root := cli.NewRoot()
	root.Short = "A fleet of Kubernetes clusters under one hub"
	root.Long = `muster runs the pieces of a fleet of Kubernetes clusters: the hub that clusters
join, the agent that joins them, and small clusters for laptops and tests.

Terraform puts the fleet together, with the provider muster-fleet/muster. The
hub speaks Open Cluster Management, so kubectl and clusteradm work with it.`
	root.Example = `  # A hub and three clusters on this machine, ready for terraform apply
  muster up --clusters 3

  # A hub alone
  muster hub --data-dir ./hub`
	root.SetVersionTemplate("muster {{.Version}}\n")
	root.AddCommand(newHubCommand(), cli.NewAgentCommand(), newDevclusterCommand(), newUpCommand(), newDownCommand(),
		newStatusCommand(), newRejoinCommand(), newJoinManifestCommand(), newExportCommand(), newAccessCommand(), cli.NewVersionCommand())
	root.AddCommand(newActionCommands()...)
	return root
}
