// Command muster runs the parts of a fleet: its hub, the agents in managed
// clusters, and small clusters for laptops and tests.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
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
		newStatusCommand(), newExplainCommand(), newRolloutCommand(), newDiffCommand(), newRejoinCommand(),
		newJoinManifestCommand(), newExportCommand(), newAccessCommand(), cli.NewVersionCommand())
	root.AddCommand(newActionCommands()...)
	return root
}

// hubFlags say which hub a command talks to.
type hubFlags struct {
	dataDir, kubeconfig, context string
}

func (f *hubFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dataDir, "data-dir", fleetDir, "data directory of \"muster up\"")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the hub, instead of the one in the data directory")
	cmd.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig, instead of its current one")
}

// path is the kubeconfig of the hub, which exists.
func (f *hubFlags) path() (string, error) {
	path := f.kubeconfig
	if path == "" {
		path = fleet.HubKubeconfig(f.dataDir)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no kubeconfig %s: "+
			"start a hub with \"muster up\", or name its kubeconfig with --kubeconfig", path)
	}
	return path, nil
}

// absolute is path from the root, for what outlives the command's working directory.
func (f *hubFlags) absolute() (string, error) {
	path, err := f.path()
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("find the kubeconfig: %w", err)
	}
	return path, nil
}

// provider is the provider's configuration for the hub.
func (f *hubFlags) provider() (map[string]string, error) {
	path, err := f.absolute()
	if err != nil {
		return nil, err
	}
	config := map[string]string{"kubeconfig_path": path}
	if f.context != "" {
		config["context"] = f.context
	}
	return config, nil
}

// client reaches the hub with the rights of its kubeconfig.
func (f *hubFlags) client() (client.WithWatch, error) {
	path, err := f.path()
	if err != nil {
		return nil, err
	}
	config, err := f.config(path)
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
}

// config is the context of the kubeconfig at path that the flags choose.
func (f *hubFlags) config(path string) (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path},
		&clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	config.QPS = -1 // a command sends one request after the other: waiting in between helps nobody
	return config, nil
}

// tables prints rows in columns.
type tables struct{ w *tabwriter.Writer }

func newTables(out io.Writer) tables { return tables{tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)} }

// row prints a row. An empty cell shows as a dash; without cells it is an empty line.
func (t tables) row(cells ...any) {
	shown := make([]string, 0, len(cells))
	for _, c := range cells {
		shown = append(shown, cell(fmt.Sprint(c)))
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(shown, "\t"))
}

// next begins another table, with this row.
func (t tables) next(cells ...any) {
	t.row()
	t.row(cells...)
}

func (t tables) flush() error { return t.w.Flush() }

// cell is a text as a table shows it. Much of it is written by the clusters' agents.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return text.Line(s)
}

// shortened is as much of a message as a table shows.
func shortened(s string) string { return text.Cut(s, 300) }
