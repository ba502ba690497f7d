package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// fleetDir is the default folder of a fleet.
const fleetDir = ".muster"

const upLong = `Starts a hub and a few clusters, waits until they are ready, prints where their
kubeconfigs are, and leaves them running. The clusters are not joined to the
hub: that is what terraform apply does.

It can be run again at any time: what runs is left alone, what has died is
started again with its data and its port, and a larger --clusters adds clusters.

With --driver devcluster a cluster is a Kubernetes API server without nodes. Its
pods report that they run, but nothing runs in them; only the klusterlet's pod
starts a real agent.

With --driver kind a cluster is a real one in a container, made with kind. The
clusters are made first; the hub then listens at the gateway of their network,
where pods reach it, and the agent's image, made of the program muster-agent
beside this one, or else of this very program, is put into their nodes: no
registry is needed. A node that has stopped is started again, and a cluster whose
making was cut short is made again. Where containers run in a virtual machine or
without root (Docker Desktop, podman), the gateway is not an address of this machine:
say where pods reach it (see the last example).

  ` + fleet.KindImageEnv + `   node image in place of kind's default
  ` + fleet.KindConfigEnv + `  path of a kind configuration in place of muster's

The hub stays where it listened last, and keeps the feature gates that it had,
unless others are given: then it is started again. Agents of muster follow a hub to
another address from where they still reach it; all others have to join again.
--feature-gates "" goes back to the default gates.`

const upExample = `  # A hub and three clusters
  muster up

  # Five clusters in a folder of one's own
  muster up --data-dir .demo --clusters 5

  # Real nodes
  muster up --driver kind --clusters 2

  # A hub that installs agents by itself, in clusters of this machine
  muster up --feature-gates ClusterImport=true --cluster-import-allow-loopback

  # Real nodes that reach this machine at 192.0.2.10
  muster up --driver kind --hub-bind-address 0.0.0.0 --hub-external-url https://192.0.2.10:6443`

func newUpCommand() *cobra.Command {
	var dir string
	o := fleet.UpOptions{}
	gates, loopback := features.NewHub(), false
	cmd := &cobra.Command{
		Use:     "up",
		Short:   "Start a hub and a few clusters on this machine",
		Long:    upLong,
		Example: upExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := cli.SetupLogging(cmd); err != nil {
				return err
			}
			if err := hubSettings(cmd.Flags(), gates, &o); err != nil {
				return err
			}
			return runUp(cmd, dir, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "data-dir", fleetDir, "folder of the fleet; made when it does not exist")
	flags.IntVar(&o.Clusters, "clusters", 3, "how many clusters there shall be")
	flags.StringVar(&o.Driver, "driver", fleet.DriverDevcluster, "kind of cluster: devcluster or kind")
	flags.StringVar(&o.HubBindAddress, "hub-bind-address", "",
		"address that the hub listens on (default the last one; at first 127.0.0.1, or the gateway of the containers' network)")
	flags.StringVar(&o.HubExternalURL, "hub-external-url", "",
		"where agents reach the hub, when that is not the address that it listens on; the hub takes the URL's port")
	features.AddFlag(flags, gates)
	flags.Lookup(gatesFlag).Usage = "the hub's feature gates, as name=true or name=false with commas in between (default the last ones); \"muster hub --help\" explains them"
	flags.BoolVar(&loopback, loopbackFlag, false, "let the hub import clusters of this machine, with --feature-gates ClusterImport=true (default as the last time)")
	return cmd
}

// Flags of the hub that "muster up" hands on and the fleet remembers.
const (
	gatesFlag    = "feature-gates"
	loopbackFlag = "cluster-import-allow-loopback"
)

// hubSettings hands on the flags of the hub that were given. Gates that no hub can have
// are errors here, before anything is started.
func hubSettings(flags *pflag.FlagSet, gates featuregate.FeatureGate, o *fleet.UpOptions) error {
	if flags.Changed(gatesFlag) {
		if err := features.Check(gates); err != nil {
			return err
		}
		text := flags.Lookup(gatesFlag).Value.String()
		o.HubGates = &text
	}
	if flags.Changed(loopbackFlag) {
		on, err := flags.GetBool(loopbackFlag)
		if err != nil {
			return err
		}
		o.HubImportLoopback = &on
	}
	return nil
}

// runUp starts the fleet in the folder dir and prints its members, also those of
// a start that fails half-way.
func runUp(cmd *cobra.Command, dir string, o fleet.UpOptions) error {
	f, err := fleet.Open(dir, "")
	if err != nil {
		return err
	}
	defer f.Close()
	o.Notice = func(line string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), line) }
	o.Progress = func(p fleet.Progress) { printProgress(cmd.ErrOrStderr(), p) }
	members, err := f.Up(cmd.Context(), o)
	for i, m := range members {
		members[i] = f.RelativeTo(dir, m)
	}
	if printErr := printMembers(cmd.OutOrStdout(), members); err == nil {
		err = printErr
	}
	if err == nil {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "\nAll of it runs until: muster down --data-dir %s\n", dir)
	}
	return err
}

func printProgress(w io.Writer, p fleet.Progress) {
	state := "ready"
	switch {
	case p.Err != nil:
		state = "failed"
	case p.Member.Revived:
		state = "ready, its nodes had stopped and were started again,"
	case p.Member.Found:
		state = "ready, it ran already"
	}
	_, _ = fmt.Fprintf(w, "%-10s %s after %s\n", p.Member.Name, state, p.Took.Round(100*time.Millisecond))
}

func printMembers(w io.Writer, members []fleet.Member) error {
	if len(members) == 0 {
		return nil
	}
	t := newTables(w)
	t.row("NAME", "URL", "KUBECONFIG")
	for _, m := range members {
		t.row(m.Name, m.URL, m.Kubeconfig)
	}
	return t.flush()
}

func newDownCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop what muster up has started",
		Long: `Stops the hub and the clusters of a fleet: each is asked to end, and is ended when
it has not after ten seconds. The hub and dev clusters keep their data, and
muster up brings them back as they were; clusters made with kind are removed, and
come back empty: run terraform destroy before, as it can't reach them later.

Stopping a fleet that does not run is no error. To remove its data too, delete
the folder afterwards.`,
		Example: `  muster down

  muster down --data-dir .demo && rm -r .demo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := cli.SetupLogging(cmd); err != nil {
				return err
			}
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "nothing to stop: there is no fleet in %s\n", dir)
				return err
			}
			f, err := fleet.Open(dir, "")
			if err != nil {
				return err
			}
			defer f.Close()
			stopped, err := f.Down(cmd.Context())
			for _, name := range stopped {
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s stopped\n", name)
			}
			if err == nil && len(stopped) == 0 {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "nothing to stop: nothing of the fleet in %s runs\n", dir)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", fleetDir, "folder of the fleet")
	return cmd
}
