package page

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
)

// maxSection is how many rows a section of an object's page has.
const maxSection = 200

// table is a table of the page.
type table struct {
	Title   string
	Columns []string
	Rows    [][]cell
	// Empty is what is said when there are no rows.
	Empty string
	// More is where all rows are when there are more than these; "" when these are all.
	More string
	// Left is how many more there are.
	Left int
}

// sections are what is shown of one object below its explanation.
type sections struct {
	read  client.Reader
	now   time.Time
	kinds []kind

	tables []table
	// hidden says what the user may not read.
	hidden []string
}

func (s *sections) add(t table) {
	if len(t.Rows) > maxSection {
		t.Left, t.Rows = len(t.Rows)-maxSection, t.Rows[:maxSection]
	}
	s.tables = append(s.tables, t)
}

// list lists objects, unless the user may not.
func (s *sections) list(ctx context.Context, list client.ObjectList, what string, options ...client.ListOption) (
	bool, error) {
	err := s.read.List(ctx, list, options...)
	if apierrors.IsForbidden(err) {
		s.hidden = append(s.hidden, "you may not list "+what)
		return false, nil
	}
	return err == nil, err
}

// moment is a time in words.
func (s *sections) moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), duration.HumanDuration(max(s.now.Sub(t), 0)))
}

// happening is something that happened to an object.
type happening struct {
	at    time.Time
	cells []cell
}

// history adds what is known of an object's past: when each condition has become what it is,
// and what was said about the object.
func (s *sections) history(ctx context.Context, kind string, o client.Object, conditions []metav1.Condition) error {
	all := []happening{{o.GetCreationTimestamp().Time, texts("Created", "", "")}}
	for _, c := range conditions {
		all = append(
			all,
			happening{c.LastTransitionTime.Time, texts(c.Type+" is "+string(c.Status), c.Reason, c.Message)},
		)
	}
	namespace := cmp.Or(o.GetNamespace(), metav1.NamespaceDefault)
	events := &corev1.EventList{}
	read, err := s.list(ctx, events, "events in "+namespace, client.InNamespace(namespace), client.Limit(maxSection),
		client.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": o.GetName()})
	if err != nil {
		return err
	}
	if read {
		for i := range events.Items {
			e := &events.Items[i]
			at := e.LastTimestamp.Time
			if at.IsZero() {
				at = e.EventTime.Time
			}
			all = append(all, happening{at, texts("Event", e.Reason, e.Message)})
		}
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		all = append(
			all,
			happening{at.Time, texts("Deletion asked for", "", "finalizers: "+strings.Join(o.GetFinalizers(), ", "))},
		)
	}
	slices.SortStableFunc(all, func(a, b happening) int { return b.at.Compare(a.at) })
	t := table{Title: "What happened", Columns: []string{"When", "What", "Reason", "Message"}}
	for _, h := range all {
		t.Rows = append(t.Rows, append(texts(s.moment(h.at)), h.cells...))
	}
	s.add(t)
	return nil
}

// objects adds the objects of another kind in a namespace.
func (s *sections) objects(ctx context.Context, path, namespace string) error {
	at := slices.IndexFunc(s.kinds, func(k kind) bool { return k.path == path })
	if at < 0 {
		return nil
	}
	k := s.kinds[at]
	rows, err := k.list(ctx, s.read, namespace, s.now)
	if apierrors.IsForbidden(err) {
		s.hidden = append(s.hidden, fmt.Sprintf("you may not list %s in %s", strings.ToLower(k.title), namespace))
		return nil
	}
	if err != nil {
		return err
	}
	worstFirst(rows)
	t := table{Title: k.title, Columns: []string{"Name", "State"}, Empty: "There are none.",
		More: listPath(k.path, "namespace", namespace)}
	for _, o := range rows {
		t.Rows = append(
			t.Rows,
			[]cell{{Text: o.key.Name, Path: pathOf(k.path, o.key)}, {Text: o.state, Level: o.level}},
		)
	}
	s.add(t)
	return nil
}

func (s *sections) cluster(ctx context.Context, key types.NamespacedName) error {
	m := &clusterv1.ManagedCluster{}
	if err := s.read.Get(ctx, key, m); err != nil {
		return err
	}
	about := table{Title: "About the cluster", Columns: []string{"What", "Value"}}
	line := func(what, value string) {
		if value != "" {
			about.Rows = append(about.Rows, texts(what, value))
		}
	}
	line("Kubernetes", m.Status.Version.Kubernetes)
	line("Created", s.moment(m.CreationTimestamp.Time))
	for _, c := range m.Spec.ManagedClusterClientConfigs {
		line("API server", c.URL)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Status.Allocatable)) {
		quantity, whole := m.Status.Allocatable[name], m.Status.Capacity[name]
		line(string(name), fmt.Sprintf("%s allocatable of %s", quantity.String(), whole.String()))
	}
	for _, t := range m.Spec.Taints {
		line("Taint", fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		line("Label "+name, m.Labels[name])
	}
	for _, c := range m.Status.ClusterClaims {
		line("Claim "+c.Name, c.Value)
	}
	if err := s.history(ctx, "ManagedCluster", m, m.Status.Conditions); err != nil {
		return err
	}
	for _, path := range []string{"works", "addons"} {
		if err := s.objects(ctx, path, m.Name); err != nil {
			return err
		}
	}
	if err := s.selecting(ctx, m.Name); err != nil {
		return err
	}
	s.add(about)
	return nil
}

// selecting adds the placements that select a cluster.
func (s *sections) selecting(ctx context.Context, name string) error {
	decisions := &clusterv1beta1.PlacementDecisionList{}
	if read, err := s.list(ctx, decisions, "placement decisions"); !read {
		return err
	}
	t := table{Title: "Placements that select it", Columns: []string{"Placement"}, Empty: "There are none."}
	for i := range decisions.Items {
		d := &decisions.Items[i]
		if slices.ContainsFunc(
			d.Status.Decisions,
			func(x clusterv1beta1.ClusterDecision) bool { return x.ClusterName == name },
		) {
			key := types.NamespacedName{Namespace: d.Namespace, Name: d.Labels[cluster.PlacementLabel]}
			t.Rows = append(t.Rows, []cell{{Text: key.String(), Path: pathOf("placements", key)}})
		}
	}
	slices.SortFunc(t.Rows, func(a, b []cell) int { return strings.Compare(a[0].Text, b[0].Text) })
	s.add(t)
	return nil
}

func (s *sections) placement(ctx context.Context, key types.NamespacedName) error {
	p := &clusterv1beta1.Placement{}
	if err := s.read.Get(ctx, key, p); err != nil {
		return err
	}
	decisions := &clusterv1beta1.PlacementDecisionList{}
	read, err := s.list(ctx, decisions, "placement decisions in "+key.Namespace, client.InNamespace(key.Namespace),
		client.MatchingLabels{cluster.PlacementLabel: key.Name})
	if err != nil {
		return err
	}
	if read {
		t := table{
			Title:   "Selected clusters",
			Columns: []string{"Cluster", "Decision group"},
			Empty:   "It selects none.",
		}
		for i := range decisions.Items {
			d := &decisions.Items[i]
			group := cmp.Or(d.Labels[cluster.DecisionGroupNameLabel], d.Labels[cluster.DecisionGroupIndexLabel])
			for _, x := range d.Status.Decisions {
				t.Rows = append(t.Rows, []cell{clusterCell(x.ClusterName), {Text: group}})
			}
		}
		slices.SortFunc(t.Rows, func(a, b []cell) int {
			return cmp.Or(strings.Compare(a[1].Text, b[1].Text), strings.Compare(a[0].Text, b[0].Text))
		})
		s.add(t)
	}
	return s.history(ctx, "Placement", p, p.Status.Conditions)
}

func clusterCell(name string) cell {
	return cell{Text: name, Path: pathOf("clusters", types.NamespacedName{Name: name})}
}

func (s *sections) rollout(ctx context.Context, key types.NamespacedName) error {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	if err := s.read.Get(ctx, key, set); err != nil {
		return err
	}
	progress := table{Title: "Progress", Columns: []string{"Placement", "Clusters available"}}
	progress.Rows = append(progress.Rows, []cell{{Text: "all"}, progressOf(set)})
	for _, p := range set.Status.PlacementsSummary {
		progress.Rows = append(progress.Rows, []cell{
			{Text: p.Name, Path: pathOf("placements", types.NamespacedName{Namespace: key.Namespace, Name: p.Name})},
			{Text: fmt.Sprintf("%d of %d", p.Summary.Available, p.Summary.Total), Part: p.Summary.Available,
				Whole: p.Summary.Total}})
	}
	s.add(progress)
	works := &workv1.ManifestWorkList{}
	read, err := s.list(ctx, works, "works of all clusters",
		client.MatchingLabels{work.ReplicaSetLabel: key.Namespace + "." + key.Name})
	if err != nil {
		return err
	}
	if read {
		t := table{Title: "Its works", Columns: []string{"Cluster", "State"}, Empty: "There are none.",
			More: listPath("works", "q", "/"+key.Name)}
		slices.SortStableFunc(works.Items, func(a, b workv1.ManifestWork) int {
			x, _ := explain.WorkState(&a)
			y, _ := explain.WorkState(&b)
			return cmp.Or(y.Rank()-x.Rank(), strings.Compare(a.Namespace, b.Namespace))
		})
		for i := range works.Items {
			w := &works.Items[i]
			level, state := explain.WorkState(w)
			t.Rows = append(t.Rows, []cell{{Text: w.Namespace, Path: pathOf("works", client.ObjectKeyFromObject(w))},
				{Text: state, Level: level}})
		}
		s.add(t)
	}
	return s.history(ctx, "ManifestWorkReplicaSet", set, set.Status.Conditions)
}

func (s *sections) work(ctx context.Context, key types.NamespacedName) error {
	w := &workv1.ManifestWork{}
	if err := s.read.Get(ctx, key, w); err != nil {
		return err
	}
	t := table{Title: "Its manifests", Columns: []string{"Object", "Applied", "Available"},
		Empty: "The agent has not reported any."}
	for _, m := range w.Status.ResourceStatus.Manifests {
		r := m.ResourceMeta
		t.Rows = append(
			t.Rows,
			append(
				texts(strings.TrimSpace(r.Kind+" "+strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))),
				conditionCell(
					m.Conditions,
					work.ConditionApplied,
				),
				conditionCell(m.Conditions, work.ConditionAvailable),
			),
		)
	}
	s.add(t)
	return s.history(ctx, "ManifestWork", w, w.Status.Conditions)
}

// conditionCell is a condition with its message when it is not True.
func conditionCell(conditions []metav1.Condition, kind string) cell {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil:
		return cell{}
	case c.Status == metav1.ConditionTrue:
		return cell{Text: "yes", Level: explain.OK}
	}
	return cell{Text: strings.TrimSuffix("no: "+c.Message, ": "), Level: explain.Problem}
}

func (s *sections) addOn(ctx context.Context, key types.NamespacedName) error {
	a := &addonv1alpha1.ManagedClusterAddOn{}
	if err := s.read.Get(ctx, key, a); err != nil {
		return err
	}
	works := &workv1.ManifestWorkList{}
	read, err := s.list(ctx, works, "works in "+key.Namespace, client.InNamespace(key.Namespace),
		client.MatchingLabels{cluster.AddOnNameLabel: key.Name})
	if err != nil {
		return err
	}
	if read {
		t := table{Title: "Its works", Columns: []string{"Work", "State"}, Empty: "There are none."}
		for i := range works.Items {
			w := &works.Items[i]
			level, state := explain.WorkState(w)
			t.Rows = append(t.Rows, []cell{{Text: w.Name, Path: pathOf("works", client.ObjectKeyFromObject(w))},
				{Text: state, Level: level}})
		}
		s.add(t)
	}
	return s.history(ctx, "ManagedClusterAddOn", a, a.Status.Conditions)
}

func (s *sections) clusterImport(ctx context.Context, key types.NamespacedName) error {
	i := &musterv1alpha1.ClusterImport{}
	if err := s.read.Get(ctx, key, i); err != nil {
		return err
	}
	s.add(table{Title: "The cluster", Columns: []string{"Cluster", "Kubeconfig"},
		Rows: [][]cell{
			{clusterCell(i.Name), {Text: "Secret " + muster.ImportNamespace + "/" + i.Spec.KubeconfigSecret}},
		}})
	return s.history(ctx, "ClusterImport", i, i.Status.Conditions)
}

func (s *sections) cloud(ctx context.Context, key types.NamespacedName) error {
	c := &musterv1alpha1.LogicalCloud{}
	if err := s.read.Get(ctx, key, c); err != nil {
		return err
	}
	requests := &musterv1alpha1.AccessRequestList{}
	read, err := s.list(ctx, requests, "access requests in "+key.Namespace, client.InNamespace(key.Namespace))
	if err != nil {
		return err
	}
	if read {
		t := table{Title: "Who has access", Columns: []string{"User", "Cluster", "Until", "Request"},
			Empty: "Nobody has, at present."}
		for i := range requests.Items {
			q := &requests.Items[i]
			if q.Spec.LogicalCloud != key.Name || !explain.HasAccess(q, s.now) {
				continue
			}
			t.Rows = append(t.Rows, []cell{{Text: q.Spec.User}, clusterCell(q.Spec.ManagedCluster),
				{Text: fmt.Sprintf("%s (in %s)", q.Status.NotAfter.UTC().Format(time.RFC3339),
					duration.HumanDuration(q.Status.NotAfter.Sub(s.now)))}, {Text: q.Name}})
		}
		slices.SortFunc(t.Rows, func(a, b []cell) int {
			return cmp.Or(strings.Compare(a[0].Text, b[0].Text), strings.Compare(a[1].Text, b[1].Text))
		})
		s.add(t)
	}
	failing := table{Title: "Clusters that are not ready", Columns: []string{"Cluster", "Why"}}
	for _, x := range c.Status.Clusters.Failing {
		failing.Rows = append(
			failing.Rows,
			[]cell{clusterCell(x.Name), {Text: strings.TrimSuffix(x.Reason+": "+x.Message, ": ")}},
		)
	}
	if len(failing.Rows) > 0 {
		s.add(failing)
	}
	return s.history(ctx, "LogicalCloud", c, c.Status.Conditions)
}
