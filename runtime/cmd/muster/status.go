package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Formats of the output of "muster status".
const (
	formatTable = "table"
	formatJSON  = "json"
)

func newStatusCommand() *cobra.Command {
	var at hubFlags
	var format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print a fleet's clusters, placement decisions, works and add-ons",
		Long: `Prints what a hub knows of its fleet: which clusters are accepted, joined and
available, which of them placements chose, the state of the works in them, and of
their add-ons.

An add-on in a cluster is available, unhealthy (its agent says so, or says nothing
any more) or unreachable (nobody can tell). It is progressing as long as its
manifests or its configuration are on their way, and may be available meanwhile.
The last table names what needs attention, and why. It puts clusters with the same
problem together, and shows the most frequent problems; -o json has them all.

When the hub has moved, it also counts the agents by the generation of the hub's
endpoints that they have followed. The old URL and the old certificate authority
can be withdrawn when all agents are at the present generation. Agents of Open
Cluster Management follow nothing, and are listed as unknown.

The hub is the one of "muster up" in the data directory, or any that a
kubeconfig reaches.`,
		Example: `  muster status --data-dir .demo
  muster status --kubeconfig ~/.kube/hub.kubeconfig
  muster status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != formatTable && format != formatJSON {
				return fmt.Errorf("--output %q is no format: use %s or %s", format, formatTable, formatJSON)
			}
			c, err := at.client()
			if err != nil {
				return err
			}
			s, err := readFleet(cmd.Context(), c)
			if err != nil {
				return err
			}
			if s.Store, err = at.readStore(cmd.Context()); err != nil {
				return err
			}
			return s.print(cmd.OutOrStdout(), format)
		},
	}
	at.add(cmd)
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "format of the output: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatTable, formatJSON}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// fleetStatus is what a hub knows of its fleet. Statuses of conditions are empty
// where there is no such condition.
type fleetStatus struct {
	Clusters []clusterStatus `json:"clusters"`
	// Hub is nil where the hub does not publish where it is.
	Hub        *hubStatus       `json:"hub,omitempty"`
	Placements []decisionStatus `json:"placements"`
	Works      []workStatus     `json:"works"`
	// ReplicaSets are those some of whose clusters get nothing.
	ReplicaSets []replicaSetStatus `json:"replicaSetsNeedingAttention,omitempty"`
	// AddOns is nil where the hub has no add-ons, or does not report them.
	AddOns []addOnStatus `json:"addOns,omitempty"`
	// Attention names the add-ons that need it.
	Attention []attention `json:"addOnsNeedingAttention,omitempty"`
	// Store is nil where the hub does not say how full its store is.
	Store *hubinfo.Store `json:"store,omitempty"`
	// Hidden says what could not be read for lack of rights.
	Hidden []string `json:"hidden,omitempty"`
}

type clusterStatus struct {
	Name      string      `json:"name"`
	Set       string      `json:"set,omitempty"`
	Accepted  bool        `json:"accepted"`
	Joined    string      `json:"joined,omitempty"`
	Available string      `json:"available,omitempty"`
	Endpoint  string      `json:"endpoint"`
	Version   string      `json:"version,omitempty"`
	AddOns    addOnCounts `json:"addOns"`
}

type decisionStatus struct {
	Namespace string   `json:"namespace"`
	Placement string   `json:"placement"`
	Decision  string   `json:"decision"`
	Clusters  []string `json:"clusters"`
}

type workStatus struct {
	Name      string `json:"name"`
	Cluster   string `json:"cluster"`
	Applied   string `json:"applied,omitempty"`
	Available string `json:"available,omitempty"`
	Manifests int    `json:"manifests"`
}

// readFleet asks a hub, with one list of each kind, and of works with several.
func readFleet(ctx context.Context, c client.Client) (*fleetStatus, error) {
	clusters, decisions := &clusterv1.ManagedClusterList{}, &clusterv1beta1.PlacementDecisionList{}
	for what, list := range map[string]client.ObjectList{"managed clusters": clusters, "placement decisions": decisions} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list the %s: %w", what, err)
		}
	}
	s := &fleetStatus{Clusters: []clusterStatus{}, Placements: []decisionStatus{}}
	var err error
	if s.Works, err = readWorks(ctx, c); err != nil {
		return nil, err
	}
	if s.Hub, err = readEndpoints(ctx, c, clusters.Items); err != nil {
		return nil, err
	}
	perCluster, err := s.readAddOns(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.readReplicaSets(ctx, c); err != nil {
		return nil, err
	}
	for _, m := range clusters.Items {
		s.Clusters = append(s.Clusters, clusterStatus{
			Name: m.Name, Set: m.Labels[cluster.ClusterSetLabel], Accepted: m.Spec.AcceptsClient(),
			Joined: status(m.Status.Conditions, cluster.ConditionJoined), Available: status(m.Status.Conditions, cluster.ConditionAvailable),
			Endpoint: endpoint(m.Status.Conditions), Version: m.Status.Version.Kubernetes, AddOns: perCluster[m.Name],
		})
	}
	for _, d := range decisions.Items {
		chosen := []string{}
		for _, x := range d.Status.Decisions {
			chosen = append(chosen, x.ClusterName)
		}
		s.Placements = append(s.Placements, decisionStatus{d.Namespace, d.Labels[cluster.PlacementLabel], d.Name, chosen})
	}
	return s, nil
}

// worksPerPage is how many works are read at a time. With their manifests and statuses
// they have some 10 kB each, and may have a megabyte.
const worksPerPage = 50

// readWorks asks for the works page by page, so that neither the hub nor this program
// ever holds the manifests of all works.
func readWorks(ctx context.Context, c client.Client) ([]workStatus, error) {
	out := []workStatus{}
	for next := ""; ; {
		page := &workv1.ManifestWorkList{}
		if err := c.List(ctx, page, client.Limit(worksPerPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list the manifest works: %w", err)
		}
		for _, m := range page.Items {
			out = append(out, workStatus{
				m.Name, m.Namespace, status(m.Status.Conditions, work.ConditionApplied), status(m.Status.Conditions, work.ConditionAvailable),
				len(m.Spec.Workload.Manifests),
			})
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}

// print prints the status in a format.
func (s *fleetStatus) print(out io.Writer, format string) error {
	if format == formatJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	t := newTables(out)
	t.row("CLUSTER", "SET", "ACCEPTED", "JOINED", "AVAILABLE", "ENDPOINT", "VERSION", "ADDONS")
	for _, m := range s.Clusters {
		t.row(m.Name, m.Set, fmt.Sprint(m.Accepted), m.Joined, m.Available, m.Endpoint, m.Version, m.AddOns.String())
	}
	s.Hub.print(t)
	t.row()
	t.row("PLACEMENT", "DECISION", "CLUSTERS")
	for _, d := range s.Placements {
		t.row(d.Namespace+"/"+d.Placement, d.Decision, strings.Join(d.Clusters, ","))
	}
	t.row()
	t.row("WORK", "CLUSTER", "APPLIED", "AVAILABLE", "MANIFESTS")
	for _, m := range s.Works {
		t.row(m.Name, m.Cluster, m.Applied, m.Available, fmt.Sprint(m.Manifests))
	}
	s.printReplicaSets(t)
	s.printAddOns(t)
	printStore(t, s.Store)
	for _, hidden := range s.Hidden {
		t.row()
		t.row("not shown: " + hidden)
	}
	return t.flush()
}

func status(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return string(c.Status)
	}
	return ""
}

// maxNamed is how many clusters a row names.
const maxNamed = 10

// named are the first clusters of a list, and how many more there are.
func named(clusters []string) string {
	listed := strings.Join(clusters[:min(len(clusters), maxNamed)], ",")
	if more := len(clusters) - maxNamed; more > 0 {
		listed += fmt.Sprintf(" and %d more", more)
	}
	return listed
}

// byKey sorts by a text.
func byKey[T any](list []T, key func(T) string) {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}
