package authorization

import (
	"context"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
)

// fillTimeout is how long a request of an agent waits for a starting hub to
// learn its clusters.
const fillTimeout = 20 * time.Second

// Agents decides what those may do who belong to a cluster: its agents, the agents of its
// add-ons, and the service accounts in its namespace. It keeps only the standing of each
// cluster, so that a decision costs the same for any number of clusters. It is safe for
// concurrent use.
type Agents struct {
	// filled is closed when the clusters, their namespaces and where the hub is are known.
	filled                                            chan struct{}
	clustersFilled, namespacesFilled, endpointsFilled *sync.Once

	mu       sync.RWMutex
	clusters map[string]member
	// namespaces are those of clusters, also of deleted ones, with the time until which
	// what identities got of earlier clusters of the name is void.
	namespaces map[string]time.Time
	// endpoints is what the hub publishes about where it is.
	endpoints map[string]string
	// watches are the open watches of those who belong to each cluster.
	watches map[string]map[*openWatch]struct{}
	// unfilled is how many lists are not known yet.
	unfilled int

	// works reads the works of a cluster.
	works atomic.Pointer[client.Reader]
}

// member is what is known of a cluster.
type member struct {
	standing Standing
	// agent is the one that the hub serves, of a cluster whose agent was replaced, and
	// void the time until which the credentials of its add-ons are void.
	agent string
	void  time.Time
}

// openWatch is a watch that was allowed once and lasts until the client ends
// it.
type openWatch struct {
	attributes authorizer.Attributes
	end        context.CancelFunc
}

// NewAgents makes the authorizer. Requests of agents wait until Run has learned
// the clusters.
func NewAgents() *Agents {
	return &Agents{
		filled:         make(chan struct{}),
		clustersFilled: &sync.Once{}, namespacesFilled: &sync.Once{}, endpointsFilled: &sync.Once{},
		clusters: map[string]member{}, namespaces: map[string]time.Time{},
		watches: map[string]map[*openWatch]struct{}{}, unfilled: 3,
	}
}

// Authorizer adapts Agents to the control plane. It has to be asked before
// RBAC, because it may overrule role bindings.
func (g *Agents) Authorizer() extension.Authorizer {
	return extension.Authorizer{Name: "ClusterAgent", Authorizer: authorizer.AuthorizerFunc(g.authorize)}
}

func (g *Agents) authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	clusters := clustersOf(a.GetUser())
	if len(clusters) == 0 {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if err := g.awaitFilled(ctx); err != nil {
		return authorizer.DecisionDeny, "", err
	}
	g.mu.RLock()
	decision, reason := g.decide(clusters, a)
	g.mu.RUnlock()
	if decision != authorizer.DecisionDeny && isQuestion(ctx) && g.isWithheld(clusters, a) {
		if err := g.checkWorks(ctx, a); err != nil {
			return authorizer.DecisionDeny, err.Error(), nil //nolint:nilerr // the refusal is the answer
		}
	}
	return decision, reason, nil
}

func (g *Agents) standing(name string) Standing {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.clusters[name].standing
}

// Ready returns a channel that is closed when the standings of all clusters are
// known.
func (g *Agents) Ready() <-chan struct{} { return g.filled }

func (g *Agents) awaitFilled(ctx context.Context) error {
	select {
	case <-g.filled:
		return nil
	default:
	}
	timeout := time.NewTimer(fillTimeout)
	defer timeout.Stop()
	select {
	case <-g.filled:
		return nil
	case <-timeout.C:
		return errors.New("the hub has not learned yet which clusters it has: try again")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run watches the clusters, their namespaces and where the hub is until ctx ends. config
// needs the right to see all of them, and works.
func (g *Agents) Run(ctx context.Context, config *rest.Config) error {
	c, err := client.NewWithWatch(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		return err
	}
	g.works.Store(ptr.To(client.Reader(c)))
	var running sync.WaitGroup
	for _, f := range []struct {
		list     client.ObjectList
		selected []client.ListOption
		kind     client.Object
		feed     feed
	}{
		{&clusterv1.ManagedClusterList{}, nil, &clusterv1.ManagedCluster{}, g.clusterFeed()},
		{
			&corev1.NamespaceList{}, []client.ListOption{client.HasLabels{cluster.NameLabel}},
			&corev1.Namespace{}, g.namespaceFeed(),
		},
		{
			&corev1.ConfigMapList{}, []client.ListOption{
				client.InNamespace(metav1.NamespacePublic),
				client.MatchingFields{"metadata.name": hubinfo.EndpointsName},
			},
			&corev1.ConfigMap{}, g.endpointsFeed(),
		},
	} {
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list := f.list.DeepCopyObject().(client.ObjectList)
				return list, c.List(ctx, list, append(f.selected, &client.ListOptions{Raw: &o})...)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, f.list, append(f.selected, &client.ListOptions{Raw: &o})...)
			},
		}
		reflector := cache.NewReflectorWithOptions(source, f.kind, f.feed, cache.ReflectorOptions{Name: "ClusterAgent"})
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

// standingOf is the standing of a cluster.
func standingOf(mc *clusterv1.ManagedCluster) Standing {
	switch {
	case cluster.IsReserved(mc.Name):
		return Refused
	case !mc.Spec.AcceptsClient():
		return Unaccepted
	case !mc.DeletionTimestamp.IsZero():
		return Leaving
	}
	return Accepted
}

// memberOf is what has to be known of a cluster.
func memberOf(mc *clusterv1.ManagedCluster) member {
	return member{
		standing: standingOf(mc),
		agent:    mc.Annotations[cluster.AgentAnnotation], void: cluster.VoidUntil(mc.Annotations),
	}
}

// setCluster records a cluster; o is nil for one that is gone. The caller holds the lock.
func (g *Agents) setCluster(name string, o any) error {
	var now member
	if o != nil {
		mc, ok := o.(*clusterv1.ManagedCluster)
		if !ok {
			return fmt.Errorf("got a %T, want a ManagedCluster", o)
		}
		now = memberOf(mc)
	}
	if g.clusters[name] == now {
		return nil
	}
	if now.standing == Absent {
		delete(g.clusters, name)
	} else {
		g.clusters[name] = now
	}
	g.endWatches(name)
	return nil
}

// setNamespace records the namespace of a cluster; o is nil for one that is gone. The
// caller holds the lock.
func (g *Agents) setNamespace(name string, o any) error {
	var until time.Time
	isClusters := false
	if o != nil {
		ns, ok := o.(*corev1.Namespace)
		if !ok {
			return fmt.Errorf("got a %T, want a Namespace", o)
		}
		isClusters = cluster.NamespaceOf(name, ns.Labels) == nil
		until, _ = time.Parse(time.RFC3339, ns.Annotations[cluster.VoidedAnnotation]) // nobody else's text
	}
	if had, ok := g.namespaces[name]; ok == isClusters && had.Equal(until) {
		return nil
	}
	if isClusters {
		g.namespaces[name] = until
	} else {
		delete(g.namespaces, name)
	}
	g.endWatches(name)
	return nil
}

// setEndpoints records what the hub publishes about where it is. A change ends the watches
// that members have of ManagedClusters, which the clients open again where they ended:
// agents then read what is published, so that none has to watch it. The caller holds the
// lock.
func (g *Agents) setEndpoints(_ string, o any) error {
	config, ok := o.(*corev1.ConfigMap)
	if !ok || maps.Equal(g.endpoints, config.Data) {
		return nil // also when it was deleted: no agent goes elsewhere by that
	}
	g.endpoints = config.Data
	for _, watches := range g.watches {
		for w := range watches {
			if w.attributes.GetAPIGroup() == cluster.GroupName && w.attributes.GetResource() == "managedclusters" {
				w.end()
			}
		}
	}
	return nil
}

// endWatches ends the watches that those who belong to a cluster no longer have the right
// to. The caller holds the lock.
func (g *Agents) endWatches(name string) {
	for w := range g.watches[name] {
		decision, _ := g.decide(clustersOf(w.attributes.GetUser()), w.attributes)
		if decision == authorizer.DecisionDeny {
			w.end()
		}
	}
}

// feed stores what a reflector finds.
type feed struct {
	agents *Agents
	// set records an object, or nil for one that is gone, and all are the names of those
	// that are recorded. Both are called with the lock.
	set func(name string, o any) error
	all func() []string
	// filled is done with the first list.
	filled *sync.Once
}

var _ cache.ReflectorStore = feed{}

// clusterFeed stores ManagedClusters.
func (g *Agents) clusterFeed() feed {
	names := func() []string { return slices.Collect(maps.Keys(g.clusters)) }
	return feed{agents: g, set: g.setCluster, all: names, filled: g.clustersFilled}
}

// namespaceFeed stores the namespaces of clusters.
func (g *Agents) namespaceFeed() feed {
	names := func() []string { return slices.Collect(maps.Keys(g.namespaces)) }
	return feed{agents: g, set: g.setNamespace, all: names, filled: g.namespacesFilled}
}

// endpointsFeed stores the config map in which the hub publishes where it is.
func (g *Agents) endpointsFeed() feed {
	return feed{
		agents: g, set: g.setEndpoints, all: func() []string { return nil }, filled: g.endpointsFilled,
	}
}

// Add stores an object.
func (f feed) Add(o any) error { return f.store(o, false) }

// Update stores an object.
func (f feed) Update(o any) error { return f.store(o, false) }

// Delete removes an object.
func (f feed) Delete(o any) error { return f.store(o, true) }

// Resync is part of cache.ReflectorStore.
func (feed) Resync() error { return nil }

func (f feed) store(o any, gone bool) error {
	object, ok := o.(client.Object)
	if !ok {
		return fmt.Errorf("got a %T, want an object", o)
	}
	f.agents.mu.Lock()
	defer f.agents.mu.Unlock()
	if gone {
		return f.set(object.GetName(), nil)
	}
	return f.set(object.GetName(), o)
}

// Replace stores a whole list.
func (f feed) Replace(list []any, _ string) error {
	now := make(map[string]any, len(list))
	for _, o := range list {
		object, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("got a %T, want an object", o)
		}
		now[object.GetName()] = o
	}
	f.agents.mu.Lock()
	defer f.agents.mu.Unlock()
	for _, name := range f.all() {
		if _, ok := now[name]; !ok {
			if err := f.set(name, nil); err != nil {
				return err
			}
		}
	}
	for name, o := range now {
		if err := f.set(name, o); err != nil {
			return err
		}
	}
	f.filled.Do(func() {
		if f.agents.unfilled--; f.agents.unfilled == 0 {
			close(f.agents.filled)
		}
	})
	return nil
}

// What an owner's requests may take at a time: a part of what all may (running). A body
// takes up to twenty times its size in memory until it is stored; the largest that is
// stored has its turn alone. A watch takes some
// 50 KB; 500 add-ons in a cluster have four each.
const (
	agentWrites, agentWatches, agentBytes = 4, 2000, 256 << 10
	userWrites, userWatches, userBytes    = 8, 2000, 1536 << 10
)

// Owners find out who answers for requests, by the clusters that the hub has.
func (g *Agents) Owners() budget.Owners { return budget.Owners{IsCluster: g.isNamespace} }

// isNamespace reports whether a namespace is that of a managed cluster.
func (g *Agents) isNamespace(name string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.counts(cluster.Belonging{Cluster: name, Part: cluster.Account}) || g.clusters[name].standing != Absent
}

// FlowOf assigns a user's requests to a flow: that of the owner whose budgets they use,
// so that nobody gains anything by having many users. Their reads use at most half of
// the processors, so that the requests of others stay fast. The hub's own requests and
// those of administrators never wait.
func (g *Agents) FlowOf(u user.Info) extension.Flow {
	owner, limited := g.Owners().Of(u)
	if !limited {
		return extension.Flow{}
	}
	flow := extension.Flow{
		Name: owner.String(), Reads: userReads(), Writes: userWrites, Watches: userWatches, Bytes: userBytes,
		Pool: extension.Pool{Name: "users", Running: running(), Patience: patience},
	}
	flow.Leases = flow.Pool
	if owner.Class != budget.OfUser { // also of those that are to become agents
		flow.Leases.Name, flow.Leases.Patience = heartbeats, heartbeatPatience
		flow.Pool.Name, flow.Pool.After = "agents", heartbeats
	}
	if owner.Class == budget.OfCluster {
		flow.Reads, flow.Writes, flow.Watches, flow.Bytes = agentReads(), agentWrites, agentWatches, agentBytes
	}
	return flow
}

const (
	// patience is how long a request waits for the processors. The server gives it up after
	// a minute, and what it does after that is for nobody.
	patience = 30 * time.Second
	// heartbeats is the pool of heartbeats. Agents give one up after 15 seconds: after
	// heartbeatPatience there is time to carry it out, or to come again.
	heartbeats        = "heartbeats"
	heartbeatPatience = 5 * time.Second
)

// running is how many requests of all agents, of all users, and heartbeats run at a time: a
// write takes some 10 ms of a processor, and waits about as long for the disk.
func running() int { return 8 * goruntime.GOMAXPROCS(0) }

func agentReads() int { return max(1, goruntime.GOMAXPROCS(0)/2) }

// userReads is two at least: a user is often several programs, and one of them may be
// slow to read its answer.
func userReads() int { return max(2, goruntime.GOMAXPROCS(0)/2) }
