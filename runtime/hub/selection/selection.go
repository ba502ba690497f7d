// Package selection determines which clusters the placements of a namespace select.
//
// Not only the scheduler may have the right to write decisions. A name in one of
// them is a cluster's namespace, where a work is applied with the rights of the
// agent. So a name counts only if the placement could have chosen it.
package selection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// Standing is what a cluster that a decision names is to the placement.
type Standing int

const (
	// Stranger is no cluster, or none of a set that the placement may choose
	// from. It counts as not selected.
	Stranger Standing = iota
	// Unaccepted is a cluster of such a set that the hub has not accepted. It
	// keeps the work that it has, and gets nothing.
	Unaccepted
	// Eligible clusters get works.
	Eligible
)

// Rule is which clusters the decisions of a placement may name.
type Rule int

const (
	// BoundSets are the clusters of the sets that are bound to the placement's
	// namespace.
	BoundSets Rule = iota
	// AnyCluster is every name that is not reserved, as with upstream's hub: the
	// cluster's namespace counts, whether or not there is a ManagedCluster.
	AnyCluster
)

// RuleOf is the rule of a hub whose gate features.BoundClusterSets is on, or off.
func RuleOf(boundSets bool) Rule {
	if boundSets {
		return BoundSets
	}
	return AnyCluster
}

// Choice is what a placement may choose from: the clusters whose labels one of
// the selectors matches.
type Choice []labels.Selector

// Standing judges a cluster; nil is one that does not exist.
func (c Choice) Standing(mc *clusterv1.ManagedCluster) Standing {
	switch {
	case mc == nil || !mc.DeletionTimestamp.IsZero() || cluster.IsReserved(mc.Name):
		return Stranger
	case !slices.ContainsFunc(c, func(s labels.Selector) bool { return s.Matches(labels.Set(mc.Labels)) }):
		return Stranger
	case !mc.Spec.AcceptsClient():
		return Unaccepted
	}
	return Eligible
}

// ChoiceOf reads which sets are bound to a placement's namespace and named by it.
// The name of a binding counts, as it does for the scheduler.
func ChoiceOf(ctx context.Context, r client.Reader, p *clusterv1beta1.Placement) (Choice, error) {
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := r.List(ctx, bindings, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the cluster set bindings of the namespace %s: %w", p.Namespace, err)
	}
	byName := map[string]*clusterv1beta2.ManagedClusterSet{}
	var bound []string
	for i := range bindings.Items {
		name := bindings.Items[i].Name
		set := &clusterv1beta2.ManagedClusterSet{}
		err := r.Get(ctx, types.NamespacedName{Name: name}, set, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the cluster set %s: %w", name, err)
		}
		byName[name] = set
		bound = append(bound, name)
	}
	_, named := membership.Eligible(bound, func(string) bool { return true }, p.Spec.ClusterSets)
	var out Choice
	for _, name := range named {
		if selector, err := membership.Selector(byName[name]); err == nil { // the set's own status reports a bad one
			out = append(out, selector)
		}
	}
	return out, nil
}

// Cluster reads a cluster and judges it. The cluster is nil when there is none.
func (c Choice) Cluster(ctx context.Context, r client.Reader, name string) (*clusterv1.ManagedCluster, Standing, error) {
	mc := &clusterv1.ManagedCluster{}
	err := r.Get(ctx, types.NamespacedName{Name: name}, mc, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err), name == "":
		return nil, Stranger, nil
	case err != nil:
		return nil, Stranger, fmt.Errorf("read the cluster %s: %w", name, err)
	}
	return mc, c.Standing(mc), nil
}

// Selection is what placements of a namespace select.
type Selection struct {
	// Clusters are the selected clusters, accepted or not. Nobody may change
	// them.
	Clusters map[string]*clusterv1.ManagedCluster
	// Strangers are names in decisions that do not count.
	Strangers sets.Set[string]
	// Missing are the placements that do not exist.
	Missing []string
	// Settled says that decisions and the placements' status agree. Until they
	// do, a cluster that is in no decision may be on its way to another one.
	Settled bool
}

// Of reads what placements of a namespace select. A cluster that several of them
// select counts once.
func Of(ctx context.Context, r client.Reader, namespace string, placements []string) (Selection, error) {
	s := Selection{Clusters: map[string]*clusterv1.ManagedCluster{}, Strangers: sets.Set[string]{}, Settled: true}
	for _, name := range placements {
		p := &clusterv1beta1.Placement{}
		err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, p)
		if apierrors.IsNotFound(err) {
			s.Missing = append(s.Missing, name)
			continue
		}
		if err != nil {
			return s, fmt.Errorf("read the placement %s/%s: %w", namespace, name, err)
		}
		if err := s.add(ctx, r, p); err != nil {
			return s, err
		}
	}
	for name := range s.Clusters {
		s.Strangers.Delete(name) // another placement may choose it
	}
	return s, nil
}

// add adds what a placement selects.
func (s *Selection) add(ctx context.Context, r client.Reader, p *clusterv1beta1.Placement) error {
	decisions := &clusterv1beta1.PlacementDecisionList{}
	ofPlacement := client.MatchingLabels{cluster.PlacementLabel: p.Name}
	if err := r.List(ctx, decisions, client.InNamespace(p.Namespace), ofPlacement, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the decisions of the placement %s/%s: %w", p.Namespace, p.Name, err)
	}
	from, err := ChoiceOf(ctx, r, p)
	if err != nil {
		return err
	}
	named := sets.Set[string]{}
	for i := range decisions.Items {
		for _, d := range decisions.Items[i].Status.Decisions {
			named.Insert(d.ClusterName)
		}
	}
	for name := range named {
		mc, standing, err := from.Cluster(ctx, r, name)
		switch {
		case err != nil:
			return err
		case standing == Stranger:
			s.Strangers.Insert(name)
		default:
			s.Clusters[name] = mc
		}
	}
	external := p.Annotations[cluster.SchedulingDisabledAnnotation] == "true" // nobody keeps such a placement's status
	if !external && named.Len() != int(p.Status.NumberOfSelectedClusters) {
		s.Settled = false
	}
	return nil
}

// ScheduledElsewhere reports whether another scheduler decides for a placement.
func ScheduledElsewhere(placement client.Object) bool {
	return placement.GetAnnotations()[cluster.SchedulingDisabledAnnotation] == "true"
}

// PlacementChanged selects changes of what a placement says of its selection. Which
// clusters it selected is in its decisions.
func PlacementChanged(was, is *clusterv1beta1.Placement) bool {
	return was.Status.NumberOfSelectedClusters != is.Status.NumberOfSelectedClusters ||
		len(was.Status.DecisionGroups) != len(is.Status.DecisionGroups) ||
		was.Generation != is.Generation || ScheduledElsewhere(was) != ScheduledElsewhere(is)
}

// StandingChanged selects changes of what decides whether a cluster may be chosen.
func StandingChanged(was, is *clusterv1.ManagedCluster) bool {
	return !maps.Equal(was.Labels, is.Labels) || was.Spec.AcceptsClient() != is.Spec.AcceptsClient() ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || was.UID != is.UID
}

// Awaited remembers which objects have clusters in their placements' decisions that
// get nothing yet, so that a change of the cluster wakes them. It is empty after a
// start, when every object is looked at. It is safe for concurrent use.
type Awaited struct {
	mu      sync.Mutex
	objects map[string]sets.Set[types.NamespacedName] // by cluster
	names   map[types.NamespacedName][]string         // the clusters by object
}

// Remember replaces what an object waits for.
func (a *Awaited) Remember(object types.NamespacedName, clusters []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.names[object] {
		a.objects[name].Delete(object)
		if len(a.objects[name]) == 0 {
			delete(a.objects, name)
		}
	}
	delete(a.names, object)
	if len(clusters) == 0 {
		return
	}
	if a.objects == nil {
		a.objects, a.names = map[string]sets.Set[types.NamespacedName]{}, map[types.NamespacedName][]string{}
	}
	a.names[object] = clusters
	for _, name := range clusters {
		if a.objects[name] == nil {
			a.objects[name] = sets.Set[types.NamespacedName]{}
		}
		a.objects[name].Insert(object)
	}
}

// Of are the objects that wait for a cluster.
func (a *Awaited) Of(cluster string) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.objects[cluster].UnsortedList()
}

// In are the objects of a namespace that wait for any cluster; of all namespaces
// when it is empty.
func (a *Awaited) In(namespace string) (found []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for object := range a.names {
		if namespace == "" || object.Namespace == namespace {
			found = append(found, object)
		}
	}
	return found
}
