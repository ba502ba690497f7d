package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
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
		t.row(m.Name, m.Set, m.Accepted, m.Joined, m.Available, m.Endpoint, m.Version, m.AddOns)
	}
	s.Hub.print(t)
	t.next("PLACEMENT", "DECISION", "CLUSTERS")
	for _, d := range s.Placements {
		t.row(d.Namespace+"/"+d.Placement, d.Decision, strings.Join(d.Clusters, ","))
	}
	t.next("WORK", "CLUSTER", "APPLIED", "AVAILABLE", "MANIFESTS")
	for _, m := range s.Works {
		t.row(m.Name, m.Cluster, m.Applied, m.Available, m.Manifests)
	}
	s.printReplicaSets(t)
	s.printAddOns(t)
	printStore(t, s.Store)
	for _, hidden := range s.Hidden {
		t.next("not shown: " + hidden)
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

// endpoint is in a word whether an agent is where the hub wants it.
func endpoint(conditions []metav1.Condition) string {
	c := meta.FindStatusCondition(conditions, muster.ConditionHubEndpointCurrent)
	if c == nil {
		return "unknown"
	}
	return c.Reason
}

// follower is how far the agents of some clusters have followed the hub.
type follower struct {
	generation int64 // 0 when the agent has not said
	state      string
}

// hubStatus is where a hub is, and how many agents have followed it there.
type hubStatus struct {
	URLs       []string       `json:"urls"`
	Generation int64          `json:"generation"`
	Agents     []agentsStatus `json:"agents"`
}

// agentsStatus are the agents that have followed equally far.
type agentsStatus struct {
	// Generation is absent where the agents have not said.
	Generation int64    `json:"generation,omitempty"`
	State      string   `json:"state"`
	Clusters   []string `json:"clusters"`
}

// readEndpoints reads where a hub is, and groups the clusters by how far their agents
// have followed. It is nil where nobody reports it.
func readEndpoints(ctx context.Context, c client.Client, clusters []clusterv1.ManagedCluster) (*hubStatus, error) {
	config := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.EndpointsName}, config)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil // a hub of Open Cluster Management, or somebody who may not know
	}
	if err != nil {
		return nil, fmt.Errorf("read where the hub is: %w", err)
	}
	published, err := hubinfo.ParseEndpoints(config.Data)
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap %s/%s cannot be used: %w: start the hub again, which writes it", metav1.NamespacePublic, hubinfo.EndpointsName, err)
	}
	h := &hubStatus{URLs: published.URLs, Generation: published.Generation, Agents: []agentsStatus{}}
	for f, names := range followers(clusters) {
		h.Agents = append(h.Agents, agentsStatus{f.generation, f.state, names})
	}
	byKey(h.Agents, func(a agentsStatus) string { return fmt.Sprintf("%020d %s", a.Generation, a.State) })
	return h, nil
}

// print prints where the hub is, and how many agents have followed it there, unless
// it has never moved and all have.
func (h *hubStatus) print(t tables) {
	if h == nil {
		return
	}
	current := func(a agentsStatus) bool {
		return a.Generation == h.Generation && a.State == muster.ReasonEndpointCurrent
	}
	if h.Generation == 1 && (len(h.Agents) == 0 || len(h.Agents) == 1 && current(h.Agents[0])) {
		return
	}
	t.next("HUB", "GENERATION", "AGENTS", "STATE", "CLUSTERS")
	for _, a := range h.Agents {
		generation := "unknown"
		if a.Generation > 0 {
			generation = fmt.Sprintf("%d of %d", a.Generation, h.Generation)
		}
		listed := "all others"
		if !current(a) {
			listed = named(a.Clusters)
		}
		t.row(strings.Join(h.URLs, ","), generation, len(a.Clusters), a.State, listed)
	}
}

// followers are the joined clusters by what their agents say of the hub's endpoint.
func followers(clusters []clusterv1.ManagedCluster) map[follower][]string {
	groups := map[follower][]string{}
	for _, m := range clusters {
		if !meta.IsStatusConditionTrue(m.Status.Conditions, cluster.ConditionJoined) {
			continue
		}
		f := follower{state: "unknown"}
		if c := meta.FindStatusCondition(m.Status.Conditions, muster.ConditionHubEndpointCurrent); c != nil {
			f = follower{muster.EndpointGeneration(c.Message), c.Reason}
			if a := meta.FindStatusCondition(m.Status.Conditions, cluster.ConditionAvailable); a != nil && a.Status == metav1.ConditionUnknown {
				f.state += ", offline"
			}
		}
		groups[f] = append(groups[f], m.Name)
	}
	return groups
}

// replicaSetStatus is a replica set whose placements have a problem: one is missing,
// or its decisions name clusters that get no work.
type replicaSetStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Problem   string `json:"problem"`
}

// readReplicaSets reads the replica sets whose placements have a problem.
func (s *fleetStatus) readReplicaSets(ctx context.Context, c client.Client) error {
	list := &workv1alpha1.ManifestWorkReplicaSetList{}
	if err := s.listIfAny(ctx, c, list, "replica sets"); err != nil {
		return err
	}
	for i := range list.Items {
		set := &list.Items[i]
		if c := meta.FindStatusCondition(set.Status.Conditions, work.ConditionPlacementVerified); c != nil && c.Message != "" {
			s.ReplicaSets = append(s.ReplicaSets, replicaSetStatus{set.Namespace, set.Name, c.Message})
		}
	}
	return nil
}

// listIfAny lists what not every hub has, and not everybody may list.
func (s *fleetStatus) listIfAny(ctx context.Context, c client.Client, list client.ObjectList, what string) error {
	err := c.List(ctx, list)
	switch {
	case apierrors.IsForbidden(err):
		s.Hidden = append(s.Hidden, fmt.Sprintf("the %s, which you may not list", what))
	case err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return fmt.Errorf("list the %s: %w", what, err)
	}
	return nil
}

func (s *fleetStatus) printReplicaSets(t tables) {
	if len(s.ReplicaSets) == 0 {
		return
	}
	t.next("REPLICA SET", "ITS PLACEMENTS")
	for _, r := range s.ReplicaSets {
		t.row(r.Namespace+"/"+r.Name, r.Problem)
	}
}

// readStore asks how full the hub's store is. It is nil for who may not know, and on a
// hub that does not say it.
func (f *hubFlags) readStore(ctx context.Context) (*hubinfo.Store, error) {
	path, err := f.path()
	if err != nil {
		return nil, err
	}
	config, err := f.config(path)
	if err != nil {
		return nil, err
	}
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs
	c, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the hub: %w", err)
	}
	answer, err := c.Get().AbsPath(hubinfo.StorePath).DoRaw(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	s := &hubinfo.Store{}
	if err == nil {
		err = json.Unmarshal(answer, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read how full the hub's store is: %w", err)
	}
	return s, nil
}

// printStore prints how full the store is when that is worth a look.
func printStore(t tables, s *hubinfo.Store) {
	if s == nil || !s.Filling {
		return
	}
	t.next(fmt.Sprintf("the hub's store is filling up: %d MiB of its quota of %d MiB are in use; agents and bootstrap tokens can create nothing any more: "+
		"delete what is not needed", s.InUse>>20, s.Quota>>20))
}
