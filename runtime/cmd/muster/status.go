package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain/facts"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// Formats of the output of "muster status".
const (
	formatTable = "table"
	formatJSON  = "json"
)

func newStatusCommand() *cobra.Command {
	var at hubFlags
	var format string
	var all, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print a fleet's cluster sets, clusters, placements, rollouts, works and add-ons",
		Long: `Prints what a hub knows of its fleet: its cluster sets, which clusters are accepted,
joined and available, which of them placements select, how far rollouts are, the state of
works, and of add-ons. In each table, what is in trouble comes first, and some rows are
shown; --all shows all. "muster explain" says why something is in its state.

With --watch it shows changes as they happen, until Ctrl-C: on a terminal the tables are
drawn again, and else a line is added for each change.

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
  muster status --watch
  muster status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != formatTable && format != formatJSON {
				return fmt.Errorf("--output %q is no format: use %s or %s", format, formatTable, formatJSON)
			}
			if watch {
				if format == formatJSON {
					return fmt.Errorf("--watch shows tables: leave out --output %s", formatJSON)
				}
				return at.watchFleet(cmd.Context(), cmd.OutOrStdout(), all)
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
			s.flags = at.flags()
			if format == formatJSON {
				return s.printJSON(cmd.OutOrStdout())
			}
			return s.print(cmd.OutOrStdout(), rowsShown(all))
		},
	}
	at.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show all rows of each table")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show changes as they happen, until Ctrl-C")
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "format of the output: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatTable, formatJSON},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// fleetStatus is what a hub knows of its fleet. Statuses of conditions are empty
// where there is no such condition.
type fleetStatus struct {
	Clusters []clusterStatus `json:"clusters"`
	// Sets are the cluster sets.
	Sets []setStatus `json:"sets,omitempty"`
	// Hub is nil where the hub does not publish where it is.
	Hub *hubStatus `json:"hub,omitempty"`
	// Placements are their decisions, and PlacementStates how they are.
	Placements      []decisionStatus `json:"placements"`
	PlacementStates []objectStatus   `json:"placementStates,omitempty"`
	Rollouts        []objectStatus   `json:"rollouts,omitempty"`
	Works           []workStatus     `json:"works"`
	// ReplicaSets are those some of whose clusters get nothing.
	ReplicaSets []replicaSetStatus `json:"replicaSetsNeedingAttention,omitempty"`
	// AddOns is nil where the hub has no add-ons, or does not report them.
	AddOns []addOnStatus `json:"addOns,omitempty"`
	// Attention names the add-ons that need it.
	Attention []attention `json:"addOnsNeedingAttention,omitempty"`
	// Store is nil where the hub does not say how full its store is.
	Store *hubinfo.Store `json:"store,omitempty"`
	// flags are those with which another command reaches the same hub.
	flags string
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
	state
}

// state is how something is, in a word and in a sentence.
type state struct {
	Level explain.Level `json:"level"`
	State string        `json:"state"`
}

type setStatus struct {
	Name     string `json:"name"`
	Clusters int    `json:"clusters"`
	// Available are those of the clusters that are.
	Available int `json:"available"`
	selector  labels.Selector
}

// objectStatus is a placement, or a replica set, of a namespace.
type objectStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	state
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
	state
}

// readFleet asks a hub, page by page, so that neither it nor this program ever holds all
// objects of a large fleet.
func readFleet(ctx context.Context, c client.Reader) (*fleetStatus, error) {
	s := &fleetStatus{Clusters: []clusterStatus{}, Placements: []decisionStatus{}, Works: []workStatus{}}
	perCluster, err := s.readAddOns(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.readSets(ctx, c); err != nil {
		return nil, err
	}
	followers := map[follower][]string{}
	if err := s.readClusters(ctx, c, followers, perCluster); err != nil {
		return nil, err
	}
	if s.Hub, err = readEndpoints(ctx, c, followers); err != nil {
		return nil, err
	}
	if err := s.readPlacements(ctx, c); err != nil {
		return nil, err
	}
	if err := s.readReplicaSets(ctx, c); err != nil {
		return nil, err
	}
	if err := s.readWorks(ctx, c); err != nil {
		return nil, err
	}
	byKey(s.Sets, func(x setStatus) string { return x.Name })
	byKey(s.Clusters, func(m clusterStatus) string { return m.Name })
	byKey(s.Placements, func(d decisionStatus) string { return d.Namespace + "/" + d.Decision })
	byKey(s.PlacementStates, objectStatus.key)
	byKey(s.Rollouts, objectStatus.key)
	byKey(s.Works, func(w workStatus) string { return w.Cluster + "/" + w.Name })
	return s, nil
}

// worksPerPage is how many works are read at a time. With their manifests and statuses
// they have some 10 kB each, and may have a megabyte.
const worksPerPage = 50

// pages lists objects page by page, and hands each page over.
func pages(ctx context.Context, c client.Reader, list client.ObjectList, size int64, page func()) error {
	for next := ""; ; {
		if err := c.List(ctx, list, client.Limit(size), client.Continue(next)); err != nil {
			return err
		}
		page()
		if next = list.GetContinue(); next == "" {
			return nil
		}
		if err := meta.SetList(list, nil); err != nil { // the next page may not reuse what was handed over
			return err
		}
	}
}

// readSets reads the cluster sets.
func (s *fleetStatus) readSets(ctx context.Context, c client.Reader) error {
	list := &clusterv1beta2.ManagedClusterSetList{}
	return s.listIfAny(ctx, c, list, "cluster sets", func() {
		for i := range list.Items {
			if selector, err := membership.Selector(&list.Items[i]); err == nil {
				s.Sets = append(s.Sets, setStatus{Name: list.Items[i].Name, selector: selector})
			}
		}
	})
}

// readClusters reads the clusters, and counts those of each set.
func (s *fleetStatus) readClusters(
	ctx context.Context, c client.Reader, followers map[follower][]string, perCluster map[string]addOnCounts,
) error {
	list := &clusterv1.ManagedClusterList{}
	err := pages(ctx, c, list, facts.ObjectsPerPage, func() {
		for i := range list.Items {
			m := &list.Items[i]
			follow(followers, m)
			one := clusterStatus{
				Name: m.Name, Set: m.Labels[cluster.ClusterSetLabel], Accepted: m.Spec.AcceptsClient(),
				Joined:    status(m.Status.Conditions, cluster.ConditionJoined),
				Available: status(m.Status.Conditions, cluster.ConditionAvailable),
				Endpoint:  endpoint(m.Status.Conditions), Version: m.Status.Version.Kubernetes,
				AddOns: perCluster[m.Name],
				state:  stateOf(explain.ClusterState(m, time.Time{})),
			}
			s.Clusters = append(s.Clusters, one)
			for j := range s.Sets {
				if !s.Sets[j].selector.Matches(labels.Set(m.Labels)) {
					continue
				}
				s.Sets[j].Clusters++
				if one.Level == explain.OK {
					s.Sets[j].Available++
				}
			}
		}
	})
	if err != nil {
		return fmt.Errorf("list the managed clusters: %w", err)
	}
	return nil
}

// readPlacements reads the placements and their decisions.
func (s *fleetStatus) readPlacements(ctx context.Context, c client.Reader) error {
	decisions, placements := &clusterv1beta1.PlacementDecisionList{}, &clusterv1beta1.PlacementList{}
	err := pages(ctx, c, decisions, facts.ObjectsPerPage, func() {
		for _, d := range decisions.Items {
			chosen := []string{}
			for _, x := range d.Status.Decisions {
				chosen = append(chosen, x.ClusterName)
			}
			s.Placements = append(s.Placements, decisionStatus{d.Namespace, d.Labels[cluster.PlacementLabel], d.Name,
				chosen})
		}
	})
	if err != nil {
		return fmt.Errorf("list the placement decisions: %w", err)
	}
	return s.listIfAny(ctx, c, placements, "placements", func() {
		for i := range placements.Items {
			p := &placements.Items[i]
			s.PlacementStates = append(s.PlacementStates, objectStatus{p.Namespace, p.Name,
				stateOf(explain.PlacementState(p))})
		}
	})
}

// readWorks reads the works.
func (s *fleetStatus) readWorks(ctx context.Context, c client.Reader) error {
	list := &workv1.ManifestWorkList{}
	err := pages(ctx, c, list, worksPerPage, func() {
		for i := range list.Items {
			w := &list.Items[i]
			s.Works = append(s.Works, workStatus{
				w.Name, w.Namespace, status(w.Status.Conditions, work.ConditionApplied),
				status(w.Status.Conditions, work.ConditionAvailable), len(w.Spec.Workload.Manifests),
				stateOf(explain.WorkState(w)),
			})
		}
	})
	if err != nil {
		return fmt.Errorf("list the manifest works: %w", err)
	}
	return nil
}

// howLongAgo is how long ago something was, which changes without anything happening.
var howLongAgo = regexp.MustCompile(` \([^()]* ago\)`)

func stateOf(level explain.Level, sentence string) state {
	return state{level, howLongAgo.ReplaceAllString(sentence, "")}
}

func (s *fleetStatus) printJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// rowsShown is how many rows of a table are shown.
func rowsShown(all bool) int {
	if all {
		return math.MaxInt
	}
	return 10
}

// worst prints the rows of a table with what is in trouble first, and how many more there
// are.
func worst[T any](t tables, list []T, most int, what string, level func(T) explain.Level, row func(T)) {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b T) int { return level(b).Rank() - level(a).Rank() })
	for _, x := range sorted[:min(len(sorted), most)] {
		row(x)
	}
	if more := len(sorted) - most; more > 0 {
		troubled := 0
		for _, x := range sorted[most:] {
			if level(x) != explain.OK {
				troubled++
			}
		}
		text := fmt.Sprintf("and %d more %s", more, what)
		if troubled > 0 {
			text += fmt.Sprintf(", %d of them not in order", troubled)
		}
		t.row(text + ": --all shows them")
	}
}

// print prints the status as tables, with so many rows of each at most.
func (s *fleetStatus) print(out io.Writer, most int) error {
	t := newTables(out)
	if len(s.Sets) > 0 {
		t.row("SET", "CLUSTERS", "AVAILABLE")
		worst(t, s.Sets, most, "sets", setStatus.level, func(x setStatus) { t.row(x.Name, x.Clusters, x.Available) })
		t.row()
	}
	t.row("CLUSTER", "SET", "ACCEPTED", "JOINED", "AVAILABLE", "ENDPOINT", "VERSION", "ADDONS")
	worst(t, s.Clusters, most, "clusters", func(m clusterStatus) explain.Level { return m.Level },
		func(m clusterStatus) {
			t.row(m.Name, m.Set, m.Accepted, m.Joined, m.Available, m.Endpoint, m.Version, m.AddOns)
		})
	s.Hub.print(t)
	s.printPlacements(t, most)
	if len(s.Rollouts) > 0 {
		t.next("ROLLOUT", "STATE")
		worst(t, s.Rollouts, most, "rollouts", func(r objectStatus) explain.Level { return r.Level },
			func(r objectStatus) {
				t.row(r.Namespace+"/"+r.Name, r.short("The replica set "))
			})
	}
	t.next("WORK", "CLUSTER", "APPLIED", "AVAILABLE", "MANIFESTS")
	worst(t, s.Works, most, "works", func(w workStatus) explain.Level { return w.Level }, func(w workStatus) {
		t.row(w.Name, w.Cluster, w.Applied, w.Available, w.Manifests)
	})
	s.printReplicaSets(t)
	s.printAddOns(t, most)
	printStore(t, s.Store)
	for _, hidden := range s.Hidden {
		t.next("not shown: " + hidden)
	}
	if ask := s.ask(); ask != "" {
		t.next("why, and what to do next: muster explain " + ask + s.flags)
	}
	return t.flush()
}

// level is how a set is: its clusters are not all available, or all are.
func (s setStatus) level() explain.Level {
	if s.Available < s.Clusters {
		return explain.Problem
	}
	return explain.OK
}

func (o objectStatus) key() string { return o.Namespace + "/" + o.Name }

// short is the state without the beginning that names the object.
func (o objectStatus) short(beginning string) string {
	return strings.TrimPrefix(o.State, beginning+o.Namespace+"/"+o.Name+" ")
}

// printPlacements prints the placements: the state of each, and the clusters of its
// decisions.
func (s *fleetStatus) printPlacements(t tables, most int) {
	clusters := map[string][]string{}
	states := slices.Clone(s.PlacementStates)
	for _, d := range s.Placements {
		key := d.Namespace + "/" + d.Placement
		if _, seen := clusters[key]; !seen && !slices.ContainsFunc(states,
			func(p objectStatus) bool { return p.Namespace+"/"+p.Name == key }) {
			states = append(states, objectStatus{Namespace: d.Namespace, Name: d.Placement,
				state: state{Level: explain.OK}})
		}
		clusters[key] = append(clusters[key], d.Clusters...)
	}
	t.next("PLACEMENT", "CLUSTERS", "STATE")
	worst(t, states, most, "placements", func(p objectStatus) explain.Level { return p.Level }, func(p objectStatus) {
		t.row(p.Namespace+"/"+p.Name, named(clusters[p.Namespace+"/"+p.Name]), p.short("The placement "))
	})
}

// ask is what to ask "muster explain" about: the worst of what is in trouble, and "" when
// nothing is.
func (s *fleetStatus) ask() string {
	found, level := "", explain.Waiting
	consider := func(l explain.Level, words ...string) {
		if l.Rank() > level.Rank() {
			found, level = strings.Join(words, ""), l
		}
	}
	for _, m := range s.Clusters {
		consider(m.Level, "cluster ", m.Name)
	}
	for _, p := range s.PlacementStates {
		consider(p.Level, "placement ", p.Namespace, "/", p.Name)
	}
	for _, r := range s.Rollouts {
		consider(r.Level, "rollout ", r.Namespace, "/", r.Name)
	}
	for _, w := range s.Works {
		consider(w.Level, "work ", w.Cluster, "/", w.Name)
	}
	for _, a := range s.Attention {
		consider(explain.Warning, "addon ", a.Clusters[0], "/", a.AddOn)
	}
	return found
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
func readEndpoints(ctx context.Context, c client.Reader, followers map[follower][]string) (*hubStatus, error) {
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
		return nil, fmt.Errorf("the ConfigMap %s/%s cannot be used: %w: start the hub again, which writes it",
			metav1.NamespacePublic, hubinfo.EndpointsName, err)
	}
	h := &hubStatus{URLs: published.URLs, Generation: published.Generation, Agents: []agentsStatus{}}
	for f, names := range followers {
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

// follow puts a cluster, if it has joined, to those whose agents say the same of the hub's
// endpoint.
func follow(groups map[follower][]string, m *clusterv1.ManagedCluster) {
	if !meta.IsStatusConditionTrue(m.Status.Conditions, cluster.ConditionJoined) {
		return
	}
	f := follower{state: "unknown"}
	if c := meta.FindStatusCondition(m.Status.Conditions, muster.ConditionHubEndpointCurrent); c != nil {
		f = follower{muster.EndpointGeneration(c.Message), c.Reason}
		if a := meta.FindStatusCondition(m.Status.Conditions, cluster.ConditionAvailable); a != nil &&
			a.Status == metav1.ConditionUnknown {
			f.state += ", offline"
		}
	}
	groups[f] = append(groups[f], m.Name)
}

// replicaSetStatus is a replica set whose placements have a problem: one is missing,
// or its decisions name clusters that get no work.
type replicaSetStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Problem   string `json:"problem"`
}

// readReplicaSets reads the replica sets.
func (s *fleetStatus) readReplicaSets(ctx context.Context, c client.Reader) error {
	list := &workv1alpha1.ManifestWorkReplicaSetList{}
	return s.listIfAny(ctx, c, list, "replica sets", func() {
		for i := range list.Items {
			set := &list.Items[i]
			s.Rollouts = append(s.Rollouts, objectStatus{set.Namespace, set.Name, stateOf(explain.RolloutState(set))})
			if c := meta.FindStatusCondition(set.Status.Conditions, work.ConditionPlacementVerified); c != nil &&
				c.Message != "" {
				s.ReplicaSets = append(s.ReplicaSets, replicaSetStatus{set.Namespace, set.Name, c.Message})
			}
		}
	})
}

// listIfAny lists, page by page, what not every hub has, and not everybody may list.
func (s *fleetStatus) listIfAny(ctx context.Context, c client.Reader, list client.ObjectList, what string,
	page func()) error {
	err := pages(ctx, c, list, facts.ObjectsPerPage, page)
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
	t.next(fmt.Sprintf("the hub's store is filling up: %d MiB of its quota of %d MiB are in use; agents and "+
		"bootstrap tokens can create nothing any more: "+
		"delete what is not needed", s.InUse>>20, s.Quota>>20))
}
