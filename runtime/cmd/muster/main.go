// Command muster runs the pieces of a fleet: its hub, the agents in managed
// clusters, and small clusters for laptops and tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	goruntime "runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

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
	// A write beyond a limit is to fail as one to a full disk does.
	signal.Ignore(syscall.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	if err := execute(ctx, newRootCommand().ExecuteContext); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// stopTimeout is how long a command may take to end that was told to.
const stopTimeout = 15 * time.Second

// execute runs a command to its end. What Kubernetes' libraries take for fatal
// ends the command, and not the process in the midst of whatever it does.
func execute(ctx context.Context, command func(context.Context) error) error {
	told := ctx
	ctx, fail := context.WithCancelCause(ctx)
	klog.OsExit = func(int) {
		fail(errors.New("a part of the program that it can't do without has failed: start it again, with -v 2 to see why"))
		goruntime.Goexit()
	}
	ended := make(chan error, 1)
	go func() {
		defer close(ended) // also when it was ended by a fatal failure
		ended <- command(ctx)
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(stopTimeout):
			err = fmt.Errorf("it did not stop within %s of being told to, and was ended: its data is as safe as after a crash, start it again", stopTimeout)
		}
	}
	if err == nil && ctx.Err() != nil && told.Err() == nil {
		err = context.Cause(ctx)
	}
	return err
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
	root.PersistentFlags().IntP("v", "v", 0, "how much to log: 0 what matters, 2 what is done, 4 why, 6 requests, without their bodies")
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
	if err := logging.CheckVerbosity(verbosity); err != nil {
		return logr.Logger{}, err
	}
	asJSON, err := cmd.Flags().GetBool("log-json")
	if err != nil {
		return logr.Logger{}, err
	}
	return logging.Setup(cmd.ErrOrStderr(), verbosity, asJSON), nil
}
