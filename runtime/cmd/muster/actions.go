package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
)

// actionCommand is a command that does what an action of the provider does. It has
// the action's attributes as arguments and flags.
type actionCommand struct {
	action                    string
	use, short, long, example string
	args                      cobra.PositionalArgs
	// configs are the attributes that the arguments stand for, one for each time that
	// the action is to run.
	configs func(args []string) ([]map[string]any, error)
	flags   []actionFlag
}

// actionFlag is an attribute of an action as a flag: force_after as --force-after.
// Its zero value shows its type.
type actionFlag struct {
	name, usage string
	zero        any
}

func (a actionCommand) command() *cobra.Command {
	var at hubFlags
	cmd := &cobra.Command{
		Use: a.use, Short: a.short, Long: a.long, Example: a.example, Args: a.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			configs, err := a.configs(args)
			if err != nil {
				return err
			}
			hub, err := at.provider()
			if err != nil {
				return err
			}
			for _, config := range configs {
				a.take(cmd.Flags(), config)
			}
			return a.run(cmd.Context(), cmd.ErrOrStderr(), hub, configs)
		},
	}
	at.add(cmd)
	for _, f := range a.flags {
		switch zero := f.zero.(type) {
		case bool:
			cmd.Flags().Bool(f.name, zero, f.usage)
		case int64:
			cmd.Flags().Int64(f.name, zero, f.usage)
		case []string:
			cmd.Flags().StringSlice(f.name, zero, f.usage)
		default:
			cmd.Flags().String(f.name, "", f.usage)
		}
	}
	return cmd
}

// take adds the flags that are set to a configuration.
func (a actionCommand) take(flags *pflag.FlagSet, config map[string]any) {
	for _, f := range a.flags {
		if !flags.Changed(f.name) {
			continue
		}
		var value any
		switch f.zero.(type) {
		case bool:
			value, _ = flags.GetBool(f.name) // the type is the one that it was made with
		case int64:
			value, _ = flags.GetInt64(f.name)
		case []string:
			value, _ = flags.GetStringSlice(f.name)
		default:
			value, _ = flags.GetString(f.name)
		}
		config[f.attribute()] = value
	}
}

func (f actionFlag) attribute() string { return strings.ReplaceAll(f.name, "-", "_") }

// run invokes the action with each of the configurations, also after a failure.
func (a actionCommand) run(ctx context.Context, out io.Writer, hub map[string]string, configs []map[string]any) error {
	attributes := map[string]any{}
	for name, value := range hub {
		attributes[name] = value
	}
	provider, err := embedded.New(ctx, version.Version(), attributes)
	if err != nil {
		return err
	}
	show := func(text string) { _, _ = fmt.Fprintln(out, a.flagged(text)) }
	provider.Warn = func(d embedded.Diagnostic) { show("warning: " + d.Error()) }
	var failed []error
	for _, config := range configs {
		err := provider.InvokeAction(ctx, a.action, config, show)
		if err != nil {
			failed = append(failed, errors.New(a.flagged(err.Error())))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// flagged writes the names of attributes as flags.
func (a actionCommand) flagged(text string) string {
	for _, f := range a.flags {
		if attribute := f.attribute(); attribute != f.name {
			text = strings.ReplaceAll(text, attribute, "--"+f.name)
		}
	}
	return text
}

// each is a configuration for each of the clusters that the arguments name.
func each(args []string) ([]map[string]any, error) {
	configs := make([]map[string]any, 0, len(args))
	for _, name := range args {
		configs = append(configs, map[string]any{"managed_cluster": name})
	}
	return configs, nil
}

// once is the one configuration, with the values of the arguments.
func once(attributes ...string) func(args []string) ([]map[string]any, error) {
	return func(args []string) ([]map[string]any, error) {
		config := map[string]any{}
		for i, value := range args {
			config[attributes[i]] = value
		}
		return []map[string]any{config}, nil
	}
}
