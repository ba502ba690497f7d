package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func newStatusCommand() *cobra.Command {
	var at hubFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print a fleet's clusters, placement decisions and works",
		Long: `Prints what a hub knows of its fleet: which clusters are accepted, joined and
available, which of them placements chose, and the state of the works in them.

When the hub has moved, it also counts the agents by the generation of the hub's
endpoints that they have followed. The old URL and the old certificate authority
can be withdrawn when all agents are at the present generation. Agents of Open
Cluster Management follow nothing, and are listed as unknown.

The hub is the one of "muster up" in the data directory, or any that a
kubeconfig reaches.`,
		Example: `  muster status --data-dir .demo
  muster status --kubeconfig ~/.kube/hub.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.client()
			if err != nil {
				return err
			}
			return printFleet(cmd.Context(), cmd.OutOrStdout(), c)
		},
	}
	at.add(cmd)
	return cmd
}

// printFleet prints three tables.
func printFleet(ctx context.Context, out io.Writer, c client.Client) error {
	clusters, decisions, works := &clusterv1.ManagedClusterList{}, &clusterv1beta1.PlacementDecisionList{}, &workv1.ManifestWorkList{}
	for what, list := range map[string]client.ObjectList{"managed clusters": clusters, "placement decisions": decisions, "manifest works": works} {
		if err := c.List(ctx, list); err != nil {
			return fmt.Errorf("list the %s: %w", what, err)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) }

	row("CLUSTER", "SET", "ACCEPTED", "JOINED", "AVAILABLE", "ENDPOINT", "VERSION")
	for _, m := range clusters.Items {
		row(m.Name, orDash(m.Labels[cluster.ClusterSetLabel]), fmt.Sprint(m.Spec.AcceptsClient()),
			status(m.Status.Conditions, cluster.ConditionJoined), status(m.Status.Conditions, cluster.ConditionAvailable),
			endpoint(m.Status.Conditions), orDash(m.Status.Version.Kubernetes))
	}
	if err := printEndpoints(ctx, row, c, clusters.Items); err != nil {
		return err
	}
	row("")
	row("PLACEMENT", "DECISION", "CLUSTERS")
	for _, d := range decisions.Items {
		var names []string
		for _, x := range d.Status.Decisions {
			names = append(names, x.ClusterName)
		}
		row(d.Namespace+"/"+d.Labels[cluster.PlacementLabel], d.Name, orDash(strings.Join(names, ",")))
	}
	row("")
	row("WORK", "CLUSTER", "APPLIED", "AVAILABLE", "MANIFESTS")
	for _, m := range works.Items {
		row(m.Name, m.Namespace, status(m.Status.Conditions, work.ConditionApplied), status(m.Status.Conditions, work.ConditionAvailable),
			fmt.Sprint(len(m.Spec.Workload.Manifests)))
	}
	return w.Flush()
}

func status(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return string(c.Status)
	}
	return "-"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
