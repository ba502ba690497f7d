// Package cli is what the programs muster and muster-agent have in common: their
// root command, how they start, log and end, and the commands agent and version.
//
// It must not import the control plane, the hub or dev clusters: muster-agent,
// which is all that the agent's image holds, is small because of that.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/internal/lifeline"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/version"
)

// ExitError is the error of a command that has said all there is to say, and ends the process
// with this status.
type ExitError int

func (e ExitError) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// FailureError is an error with which a command ends the process with another status than 1.
type FailureError struct {
	Status int
	Err    error
}

func (f *FailureError) Error() string { return f.Err.Error() }
func (f *FailureError) Unwrap() error { return f.Err }

// Main runs a program's root command and ends the process with status 1 if it
// fails, or with that of an ExitError or a FailureError. The context of the command
// ends with SIGINT and SIGTERM, and with the process that has started this one for a test.
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
		var exit ExitError
		var failure *FailureError
		if errors.As(err, &exit) {
			os.Exit(int(exit))
		}
		fmt.Fprintln(os.Stderr, "Error:", err)
		if errors.As(err, &failure) {
			os.Exit(failure.Status)
		}
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

// bareVerbosity is how much -v logs without a number.
const bareVerbosity = "2"

// AddVerbosity adds the flag -v, with or without a number. Arguments have to go through
// JoinVerbosity before they are parsed.
func AddVerbosity(f *pflag.FlagSet) {
	f.IntP("v", "v", 0, "how much to log: 0 what matters, 2 what is done (-v alone), 4 why, 6 requests, without their bodies")
	f.Lookup("v").NoOptDefVal = bareVerbosity
}

// JoinVerbosity makes "-v 4", "--v 4" and "-v4" one argument, "-v=4". A flag that does
// without a value takes none from the next argument, so a number that follows would
// count as an argument of the command.
func JoinVerbosity(args []string) []string {
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if number, short := strings.CutPrefix(arg, "-v"); short && isNumber(number) {
			arg = "-v=" + number
		}
		if (arg == "-v" || arg == "--v") && i+1 < len(args) && isNumber(args[i+1]) {
			i++
			arg += "=" + args[i]
		}
		out = append(out, arg)
	}
	return out
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// explainFlag says of a flag that can't be read what is wrong with it, and what to
// write in its place.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	help := fmt.Sprintf("see %q", cmd.CommandPath()+" --help")
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		if near := suggest.Name(name, flagNames(cmd)); near != "" {
			return fmt.Errorf("%q has no flag --%s: did you mean --%s? Or %s", cmd.CommandPath(), name, near, help)
		}
		return fmt.Errorf("%q has no flag --%s: %s", cmd.CommandPath(), name, help)
	case errors.As(err, &bare) && bare.GetFlag() != nil:
		return fmt.Errorf("--%s needs a value, %s: %s", bare.GetFlag().Name, meaning(bare.GetFlag()), help)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if wanted := meaning(f); wanted != anyValue {
			return fmt.Errorf("--%s %q is not %s: %s", f.Name, invalid.GetValue(), wanted, help)
		}
		return fmt.Errorf("--%s %q: %w: %s", f.Name, invalid.GetValue(), errors.Unwrap(err), help)
	}
	return fmt.Errorf("%w: %s", err, help)
}

// flagNames are the flags that a command takes and shows.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

// anyValue stands for values that a flag's type says nothing about.
const anyValue = "which its help describes"

// meaning is what a flag's values are, by its type.
func meaning(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int32", "int64", "uint16":
		return "a whole number such as 3"
	case "float32", "float64":
		return "a number such as 0.5"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 90s or 5m"
	case "ip":
		return "an IP address such as 0.0.0.0, without a port"
	case "stringToString":
		return "a list such as key=value,key=value"
	}
	return anyValue
}

// NewVersionCommand returns the command version. It prints the versions of
// Kubernetes and etcd only in the program that holds them.
func NewVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print muster's version and that of the Kubernetes inside",
		Example: "  muster version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := [][2]string{
				{"muster", version.Version()},
				{"kubernetes", version.Module("k8s.io/kubernetes")},
				{"etcd", version.Module("go.etcd.io/etcd/server/v3")},
			}
			for _, row := range rows {
				if row[1] == "" {
					continue
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", row[0], row[1]); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
