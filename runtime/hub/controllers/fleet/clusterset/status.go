package clusterset

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Status reports how many clusters each cluster set selects.
type Status struct {
	client  client.Client
	members *Members
}

// NewStatus makes the controller, which counts members. It knows of clusters by
// its watches, so it has to be registered before it reconciles.
func NewStatus(c client.Client, members *Members) *Status {
	return &Status{client: c, members: members}
}

// Register adds the controller to a manager.
func (c *Status) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("clusterset-status").
		// Changes of the status pass, too: a status that was found right in an
		// outdated copy is looked at once more when the copy is up to date.
		For(&clusterv1beta2.ManagedClusterSet{}).
		Watches(&clusterv1.ManagedCluster{}, c.clusterEvents(), builder.WithPredicates(watch.Changed(relabelled))).
		Complete(patch.RetryConflicts(c))
}

func relabelled(was, is *clusterv1.ManagedCluster) bool { return !maps.Equal(was.Labels, is.Labels) }

// together is how long a set waits for more changes of its members before it is written.
// Clusters come by the hundred: a write of their sets for each would cost as much as all
// else that is written for it.
const together = 200 * time.Millisecond

// clusterEvents wakes the sets that have more or fewer members by an event.
func (c *Status) clusterEvents() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, sets []string) {
		for _, set := range sets {
			q.Add(watch.Request(set))
		}
	}
	return watch.After(together, handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			wake(q, c.members.labelled(e.Object.GetName(), e.Object.GetLabels()))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			wake(q, c.members.labelled(e.ObjectNew.GetName(), e.ObjectNew.GetLabels()))
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			wake(q, c.members.gone(e.Object.GetName()))
		},
	})
}

// Reconcile counts the members of a set, those that are being deleted included.
func (c *Status) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := c.client.Get(ctx, r.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			c.members.forget(r.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	selector, err := membership.Selector(set)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	empty := condition(c.members.count(set.Name, selector))
	_, err = patch.Status(ctx, c.client, set, func() bool { return meta.SetStatusCondition(&set.Status.Conditions, empty) }, patch.SoleWriter())
	return reconcile.Result{}, patch.Explain(err, "report on the cluster set %s", set.Name)
}

func condition(members int) metav1.Condition {
	if members == 0 {
		return metav1.Condition{
			Type: cluster.ConditionClusterSetEmpty, Status: metav1.ConditionTrue,
			Reason: cluster.ReasonNoClusterMatched, Message: cluster.MessageNoClusterMatched,
		}
	}
	return metav1.Condition{
		Type: cluster.ConditionClusterSetEmpty, Status: metav1.ConditionFalse,
		Reason: cluster.ReasonClustersSelected, Message: fmt.Sprintf("%d ManagedClusters selected", members),
	}
}

// Resource is what FirstStatus is for.
func Resource() schema.GroupResource {
	return clusterv1beta2.GroupVersion.WithResource("managedclustersets").GroupResource()
}

// FirstStatus is the status of a set that is about to be created, so that the
// controller finds it right and has nothing to write. It is nil where the members
// are not known: before the controller runs, which is in one replica only, and for a
// set that can't be read.
func (m *Members) FirstStatus(u *unstructured.Unstructured) map[string]any {
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, set); err != nil {
		return nil
	}
	selector, err := membership.Selector(set)
	if err != nil {
		return nil
	}
	number, known := m.first(selector)
	if !known {
		return nil
	}
	var status clusterv1beta2.ManagedClusterSetStatus
	meta.SetStatusCondition(&status.Conditions, condition(number))
	first, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil
	}
	return first
}

// Members counts the clusters of each set as they come, go and are relabelled, so
// that one change costs a look at one cluster and not at all of them. It is safe
// for concurrent use.
type Members struct {
	mu       sync.Mutex
	complete bool // has seen all clusters that there were at the start
	clusters map[string]labels.Set
	sets     map[string]*setMembers
}

// setMembers are those of one set.
type setMembers struct {
	selector labels.Selector
	number   int
}

// NewMembers makes a count that knows no clusters.
func NewMembers() *Members {
	return &Members{clusters: map[string]labels.Set{}, sets: map[string]*setMembers{}}
}

// labelled takes note of a cluster's labels, and returns the sets that have more
// or fewer members by it. It keeps the map.
func (m *Members) labelled(cluster string, to labels.Set) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, known := m.clusters[cluster]
	m.clusters[cluster] = to
	return m.moved(from, known, to, true)
}

// gone notes that a cluster is gone, and returns the sets that had it.
func (m *Members) gone(cluster string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, known := m.clusters[cluster]
	delete(m.clusters, cluster)
	return m.moved(from, known, nil, false)
}

func (m *Members) moved(from labels.Set, was bool, to labels.Set, is bool) (changed []string) {
	for name, set := range m.sets {
		before, after := was && set.selector.Matches(from), is && set.selector.Matches(to)
		switch {
		case before == after:
			continue
		case after:
			set.number++
		default:
			set.number--
		}
		changed = append(changed, name)
	}
	return changed
}

// count is how many clusters a set has. It looks at all of them when the set is
// new or selects others than before.
func (m *Members) count(set string, selector labels.Selector) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.complete = true // the controller's watches are in step before it counts
	if have, ok := m.sets[set]; ok && have.selector.String() == selector.String() {
		return have.number
	}
	s := &setMembers{selector: selector, number: m.selected(selector)}
	m.sets[set] = s
	return s.number
}

// selected is how many clusters a selector selects.
func (m *Members) selected(selector labels.Selector) (number int) {
	for _, of := range m.clusters {
		if selector.Matches(of) {
			number++
		}
	}
	return number
}

// first is how many clusters a set has that is about to be created, if that is known
// here.
func (m *Members) first(selector labels.Selector) (number int, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.complete {
		return 0, false
	}
	return m.selected(selector), true
}

// forget notes that a set is gone.
func (m *Members) forget(set string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, set)
}
