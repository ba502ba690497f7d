// Command muster runs the pieces of a fleet: its hub, the agents in managed
// clusters, and small clusters for laptops and tests.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/version"
)

func main() {
	// Most of a control plane's memory is caches that live long, so collecting
	// twice as often saves a fifth of it for little CPU. GOGC overrides it.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	// Libraries put flags of their own there, and cobra offers them everywhere.
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// newRootCommand is muster with all its commands.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "muster",
		Short: "A fleet of Kubernetes clusters under one hub",
		Long: `muster runs the pieces of a fleet of Kubernetes clusters: the hub that clusters
join, the agent that joins them, and small clusters for laptops and tests.

Terraform puts the fleet together, with the provider muster-fleet/muster. The
hub speaks Open Cluster Management, so kubectl and clusteradm work with it.`,
		Example: `  # A hub and three clusters on this machine, ready for terraform apply
  muster up --clusters 3

  # A hub alone
  muster hub --data-dir ./hub`,
		Version:           version.Version(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.PersistentFlags().IntP("v", "v", 0, "how much to log: 0 what matters, 2 what is done, 4 why, 6 requests")
	root.PersistentFlags().Bool("log-json", false, "log as JSON, one object a line")
	root.SetVersionTemplate("muster {{.Version}}\n")
	root.AddCommand(newHubCommand(), newAgentCommand(), newDevclusterCommand(), newUpCommand(), newDownCommand(), newStatusCommand(), newRejoinCommand(), newVersionCommand())
	return root
}

// setupLogging makes the process log as the flags say.
func setupLogging(cmd *cobra.Command) (logr.Logger, error) {
	verbosity, err := cmd.Flags().GetInt("v")
	if err != nil {
		return logr.Logger{}, err
	}
	asJSON, err := cmd.Flags().GetBool("log-json")
	if err != nil {
		return logr.Logger{}, err
	}
	return logging.Setup(cmd.ErrOrStderr(), verbosity, asJSON), nil
}
