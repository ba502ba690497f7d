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
	values := map[string]func() any{}
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
			for _, f := range a.flags {
				for _, config := range configs {
					if cmd.Flags().Changed(f.name) {
						config[f.attribute()] = values[f.name]()
					}
				}
			}
			return a.run(cmd.Context(), cmd.ErrOrStderr(), hub, configs)
		},
	}
	at.add(cmd)
	for _, f := range a.flags {
		values[f.name] = f.add(cmd.Flags())
	}
	return cmd
}

// add adds the flag, and returns what reads its value.
func (f actionFlag) add(flags *pflag.FlagSet) func() any {
	switch zero := f.zero.(type) {
	case bool:
		value := flags.Bool(f.name, zero, f.usage)
		return func() any { return *value }
	case int64:
		value := flags.Int64(f.name, zero, f.usage)
		return func() any { return *value }
	case []string:
		value := flags.StringSlice(f.name, zero, f.usage)
		return func() any { return *value }
	}
	value := flags.String(f.name, "", f.usage)
	return func() any { return *value }
}

func (f actionFlag) attribute() string { return strings.ReplaceAll(f.name, "-", "_") }

// run invokes the action with each of the configurations, also after a failure.
func (a actionCommand) run(ctx context.Context, out io.Writer, hub map[string]string, configs []map[string]any) error {
	provider, err := newProvider(ctx, hub)
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

// newProvider is the provider with the attributes of its block.
func newProvider(ctx context.Context, attributes map[string]string) (*embedded.Provider, error) {
	config := map[string]any{}
	for name, value := range attributes {
		config[name] = value
	}
	return embedded.New(ctx, version.Version(), config)
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

// newActionCommands are the commands for the actions of the provider, which are for
// everybody who has no Terraform 1.14.
func newActionCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, a := range []actionCommand{
		waitCommand(), denyCommand(), detachCommand(), rotateCommand(), revokeCommand(), replayCommand(), resumeCommand(),
	} {
		commands = append(commands, a.command())
	}
	return commands
}

func timeout(standard string) actionFlag {
	return actionFlag{"timeout", "how long that may take, such as 90s or 15m (default " + standard + ")", ""}
}

func waitCommand() actionCommand {
	return actionCommand{
		action: "muster_wait_joined",
		use:    "wait [CLUSTER...]",
		short:  "Wait until clusters have joined and are available",
		long: `Waits until clusters have joined the hub and are available, and tells meanwhile
how far each of them is: whether it is accepted, which certificate request waits
for approval, and what the hub says about it. It changes nothing, and ends early
when a cluster is denied or deleted.

The clusters are those that are named, or those of a set or with certain labels.`,
		example: `  muster wait paris lyon --timeout 15m
  muster wait --cluster-set production --minimum 3 --kubeconfig hub.kubeconfig`,
		args: cobra.ArbitraryArgs,
		configs: func(args []string) ([]map[string]any, error) {
			config := map[string]any{}
			if len(args) > 0 {
				config["managed_clusters"] = args
			}
			return []map[string]any{config}, nil
		},
		flags: []actionFlag{
			{"cluster-set", "wait for the clusters of this set", ""},
			{"label-selector", "wait for clusters with these labels, such as env=prod,region in (eu,us)", ""},
			{"minimum", "how many of the clusters suffice (default all of them, and one at least)", int64(0)},
			{"until", "available or joined (default available)", ""},
			timeout("10m"),
		},
	}
}

func denyCommand() actionCommand {
	return actionCommand{
		action: "muster_deny_cluster",
		use:    "deny CLUSTER...",
		short:  "Deny clusters, so that their agents lose their rights",
		long: `Denies clusters: sets hubAcceptsClient to false, and waits until the hub has
withdrawn the rights of their agents. What runs in the clusters keeps running.

A cluster that a muster_cluster_acceptance accepts is better denied there: its
next apply would accept the cluster again, so this refuses.`,
		example: `  muster deny paris --kubeconfig hub.kubeconfig`,
		args:    cobra.MinimumNArgs(1),
		configs: each,
		flags: []actionFlag{
			{"force-conflicts", "deny a cluster also when Terraform accepts it", false},
			timeout("2m"),
		},
	}
}

func detachCommand() actionCommand {
	return actionCommand{
		action: "muster_detach_cluster",
		use:    "detach CLUSTER...",
		short:  "Take clusters out of the fleet",
		long: `Takes clusters out of the fleet: deletes their ManagedClusters, and waits until
their agents have removed what their works have made, and the hub their add-ons,
works and rights. Meanwhile it names what is left, and the finalizers that hold it.

The agent stays in the cluster, unless --cluster-kubeconfig says how to reach it. Then
all that was installed with it is removed in the end, and what is left is listed. An
agent of muster_klusterlet is left to that.

A lost cluster can't clean up. With --force its works and add-ons go without its
agent; what the works have made stays in the cluster, and is listed.`,
		example: `  muster detach paris --kubeconfig hub.kubeconfig
  muster detach paris --cluster-kubeconfig paris.kubeconfig --kubeconfig hub.kubeconfig
  muster detach lyon --force --delete-namespace --kubeconfig hub.kubeconfig`,
		args:    cobra.MinimumNArgs(1),
		configs: each,
		flags: []actionFlag{
			{"force", "remove the finalizers that the agent of a lost cluster would remove", false},
			{"force-after", "how long a cluster whose agent reports may clean up before --force does (default 1m)", ""},
			{"delete-namespace", "delete the cluster's namespace on the hub, too", false},
			{"cluster-kubeconfig", "kubeconfig of the cluster, to remove from it all that was installed with the agent", ""},
			{"cluster-context", "the context in it (default its current one)", ""},
			timeout("10m"),
		},
	}
}

func rotateCommand() actionCommand {
	return actionCommand{
		action: "muster_rotate_certificate",
		use:    "rotate-certificate CLUSTER...",
		short:  "Have agents renew their certificates now",
		long: `Has the agents of clusters renew their client certificates for the hub now, with
new keys, and waits for it. Agents renew by themselves in good time.

The certificates from before stay valid until they expire. To shut out anyone who has
the key of one, let the cluster join again with another agent: muster rejoin.`,
		example: `  muster rotate-certificate paris lyon --kubeconfig hub.kubeconfig`,
		args:    cobra.MinimumNArgs(1),
		configs: each,
		flags:   []actionFlag{timeout("5m")},
	}
}

func revokeCommand() actionCommand {
	return actionCommand{
		action: "muster_revoke_token",
		use:    "revoke-token [TOKEN-ID]",
		short:  "Revoke bootstrap tokens",
		long: `Revokes a bootstrap token, or all that are for one cluster alone. The hub refuses
them at once, and deletes the undecided certificate requests that were made with
them. Clusters that have joined stay.

The ID is the public half of the token: the six characters before the dot.`,
		example: `  muster revoke-token abcdef --kubeconfig hub.kubeconfig
  muster revoke-token --managed-cluster paris --kubeconfig hub.kubeconfig`,
		args:    cobra.MaximumNArgs(1),
		configs: once("token_id"),
		flags:   []actionFlag{{"managed-cluster", "revoke the tokens that are for this cluster alone", ""}},
	}
}

func replayCommand() actionCommand {
	return actionCommand{
		action: "muster_replay_work",
		use:    "replay CLUSTER WORK",
		short:  "Have an agent apply a work once more",
		long: `Has the agent of a cluster apply all manifests of a work once more, now, and waits
for its report. The agent forgets what it knows of the objects, and any pause after
a quarrel with another controller or a lack of rights. It fails when the manifests
still can't be applied.`,
		example: `  muster replay paris web --kubeconfig hub.kubeconfig`,
		args:    cobra.ExactArgs(2),
		configs: once("managed_cluster", "name"),
		flags: []actionFlag{
			{"lift-complete", "apply also a work that is complete", false},
			timeout("5m"),
		},
	}
}

// newRolloutCommand has what is done with rollouts from day to day.
func newRolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Look at a rollout, approve its next group, or pause it",
		Long: `Looks at the rollout of a replica set, approves the next group of one that has
gates, or pauses one. OBJECT is NAMESPACE/NAME of a replica set, or the name of an
add-on, whose state "muster status" shows.`,
		Example: `  muster rollout status shop/web
  muster rollout approve shop/web production
  muster rollout pause metrics`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, k := range explainedKinds() {
		if k.name == "rollout" {
			k.name, k.aliases, k.example = "status", nil, "  muster rollout status shop/web"
			cmd.AddCommand(k.command())
		}
	}
	cmd.AddCommand(approveCommand().command(), pauseCommand().command())
	return cmd
}

// gatedConfig is the configuration that names a replica set, or an add-on.
func gatedConfig(object string) map[string]any {
	if namespace, name, isSet := strings.Cut(object, "/"); isSet {
		return map[string]any{"namespace": namespace, "name": name}
	}
	return map[string]any{"name": object}
}

func approveCommand() actionCommand {
	return actionCommand{
		action: "muster_approve_rollout",
		use:    "approve OBJECT GROUP",
		short:  "Approve a group of a rollout that has gates",
		long: `Approves a group of clusters for what is rolled out at present. The hub notes who
has approved, and hands out to the group by the rollout strategy. GROUP is the name
of a decision group, its index when it has no name, or '*' for all groups.

It needs the verb approve on the replica set or the add-on.`,
		example: `  muster rollout approve shop/web production
  muster rollout approve metrics '*' --kubeconfig hub.kubeconfig`,
		args: cobra.ExactArgs(2),
		configs: func(args []string) ([]map[string]any, error) {
			config := gatedConfig(args[0])
			config["group"] = args[1]
			return []map[string]any{config}, nil
		},
	}
}

func pauseCommand() actionCommand {
	return actionCommand{
		action: "muster_pause_rollout",
		use:    "pause OBJECT",
		short:  "Pause a rollout, or let it go on with --undo",
		long: `Pauses a rollout: nothing more is handed out until it goes on. Clusters that have
the change keep it, and what is under way there ends.`,
		example: `  muster rollout pause shop/web
  muster rollout pause shop/web --undo`,
		args:    cobra.ExactArgs(1),
		configs: func(args []string) ([]map[string]any, error) { return []map[string]any{gatedConfig(args[0])}, nil },
		flags:   []actionFlag{{"undo", "let a paused rollout go on", false}},
	}
}

func resumeCommand() actionCommand {
	return actionCommand{
		action: "muster_resume_rollout",
		use:    "resume-rollout NAMESPACE/NAME",
		short:  "Resume the rollout of a replica set that has stopped",
		long: `Resumes the rollout of a ManifestWorkReplicaSet that has stopped because clusters
failed: has their agents apply their works once more, or the hub make them again,
and waits until none of them fails any more.`,
		example: `  muster resume-rollout shop/web --kubeconfig hub.kubeconfig
  muster resume-rollout shop/web --recreate --managed-clusters paris --rolled-out`,
		args: cobra.ExactArgs(1),
		configs: func(args []string) ([]map[string]any, error) {
			namespace, name, ok := strings.Cut(args[0], "/")
			if !ok {
				return nil, fmt.Errorf("%q does not name a replica set: write NAMESPACE/NAME, as in shop/web", args[0])
			}
			return []map[string]any{{"namespace": namespace, "name": name}}, nil
		},
		flags: []actionFlag{
			{"managed-clusters", "only the works in these clusters (default all that have failed)", []string(nil)},
			{"recreate", "delete the works that have failed, so that the hub makes them and their objects again", false},
			{"rolled-out", "wait until the rollout has reached all clusters", false},
			timeout("10m"),
		},
	}
}
