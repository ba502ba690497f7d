// Command muster-agent is the agent alone, for the image that managed clusters
// run: the commands agent and version of muster, in a program of a quarter of the
// size. In the image it is /muster.
//
// It must not import the control plane; a test checks what it links, and its size.
package main

import (
	"github.com/spf13/cobra"

	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
)

func main() {
	cli.Main(newRootCommand)
}

// newRootCommand returns muster with the commands that managed clusters need. It
// sets no template of cobra's: text/template looks methods up by name, so the
// linker would keep all exported methods.
func newRootCommand() *cobra.Command {
	root := cli.NewRoot()
	root.Short = "The agent of a managed cluster"
	root.Long = `This is muster's agent alone, as the image for managed clusters holds it. Hubs,
dev clusters and all other commands are in the complete program, and in the image
muster-hub.`
	root.AddCommand(cli.NewAgentCommand(), cli.NewVersionCommand())
	return root
}
