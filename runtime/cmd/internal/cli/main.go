package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	goruntime "runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/internal/lifeline"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/version"
)

// Main runs a program's root command and ends the process with status 1 if it
// fails. The context of the command ends with SIGINT and SIGTERM, and with the
// process that has started this one for a test.
func Main(newRoot func() *cobra.Command) {
	// What a program of these keeps in memory is caches that live long, so
	// collecting twice as often as Go's default saves memory for little CPU. Hubs
	// and dev clusters, which allocate much under load, use gctuner. The environment
	// variable GOGC takes precedence.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	// Libraries add flags of their own there, and cobra offers them everywhere.
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	// A write beyond a file size limit must fail as one to a full disk does.
	signal.Ignore(syscall.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	ctx, remove := lifeline.Follow(ctx)
	root := newRoot()
	root.SetFlagErrorFunc(explainFlag)
	root.SetArgs(JoinVerbosity(os.Args[1:]))
	explainArguments(root)
	err := execute(ctx, root.ExecuteContext)
	if err := errors.Join(err, remove()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// explainArguments lets a command and those below it answer wrong arguments with how
// they are called.
func explainArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w: call it as %q, or see %q", err, cmd.UseLine(), cmd.CommandPath()+" --help")
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		explainArguments(sub)
	}
}

// stopTimeout is how long a command may take to return once its context has ended.
const stopTimeout = 15 * time.Second

// execute runs a command until it returns. A fatal failure in Kubernetes'
// libraries ends the command's context, not the whole process at once.
func execute(ctx context.Context, command func(context.Context) error) error {
	signalled := ctx
	ctx, fail := context.WithCancelCause(ctx)
	klog.OsExit = func(int) {
		fail(errors.New("a part of the program that it can't do without has failed: start it again, with -v 2 to see why"))
		goruntime.Goexit()
	}
	ended := make(chan error, 1)
	go func() {
		defer close(ended) // also after a fatal failure
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
	if err == nil && ctx.Err() != nil && signalled.Err() == nil {
		err = context.Cause(ctx)
	}
	return err
}

// NewRoot returns the command muster without sub-commands, with the flags that
// all of them take.
func NewRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "muster",
		Version:           version.Version(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	AddVerbosity(root.PersistentFlags())
	root.PersistentFlags().Bool("log-json", false, "log as JSON, one object a line")
	return root
}

// SetupLogging makes the process log as the command's flags say, and returns the
// logger for the command to hand on.
func SetupLogging(cmd *cobra.Command) (*slog.Logger, error) {
	verbosity, err := cmd.Flags().GetInt("v")
	if err != nil {
		return nil, err
	}
	if err := logging.CheckVerbosity(verbosity); err != nil {
		return nil, err
	}
	asJSON, err := cmd.Flags().GetBool("log-json")
	if err != nil {
		return nil, err
	}
	return logging.Setup(cmd.Context(), cmd.ErrOrStderr(), verbosity, asJSON), nil
}
