package authorization

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

// fillTimeout is how long a request of an agent waits for a starting hub to
// learn its clusters.
const fillTimeout = 20 * time.Second

// Agents decides what the agents of clusters may do. It keeps only the standing
// of each cluster, so that a decision costs the same for any number of
// clusters. It is safe for concurrent use.
type Agents struct {
	// filled is closed when the standings are known.
	filled   chan struct{}
	fillOnce sync.Once

	mu        sync.RWMutex
	standings map[string]Standing
	// current is the agent that the hub serves, for each cluster whose agent
	// was replaced.
	current map[string]string
	// watches are the open watches of each cluster's agents.
	watches map[string]map[*openWatch]struct{}
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
	return &Agents{filled: make(chan struct{}), standings: map[string]Standing{}, current: map[string]string{}, watches: map[string]map[*openWatch]struct{}{}}
}

// Authorizer adapts Agents to the control plane. It has to be asked before
// RBAC, because it may overrule role bindings.
func (g *Agents) Authorizer() controlplane.Authorizer {
	return controlplane.Authorizer{Name: "ClusterAgent", Authorizer: authorizer.AuthorizerFunc(g.authorize)}
}

func (g *Agents) authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	clusters := g.clustersOf(a.GetUser())
	if len(clusters) == 0 {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if err := g.awaitFilled(ctx); err != nil {
		return authorizer.DecisionDeny, "", err
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	decision, reason := g.decide(clusters, a)
	return decision, reason, nil
}

// agentOf is a cluster that a user is an agent of. plain is true when only the
// group without the prefix says so.
type agentOf struct {
	cluster string
	plain   bool
}

// clustersOf are the clusters that the user is an agent of. An administrator is
// an agent of none.
func (g *Agents) clustersOf(u user.Info) []agentOf {
	if u == nil {
		return nil
	}
	groups := u.GetGroups()
	names := cluster.AgentClusters(groups)
	if len(names) == 0 || slices.Contains(groups, user.SystemPrivilegedGroup) {
		return nil
	}
	clusters := make([]agentOf, 0, len(names))
	for _, name := range names {
		clusters = append(clusters, agentOf{name, !slices.Contains(groups, cluster.Group(name))})
	}
	return clusters
}

// decide combines what a user may do as the agent of several clusters: one that
// allows is enough, and one that denies outweighs others without an opinion.
// The caller holds the lock.
func (g *Agents) decide(clusters []agentOf, a authorizer.Attributes) (authorizer.Decision, string) {
	together, reason := authorizer.DecisionNoOpinion, ""
	for _, c := range clusters {
		standing := g.standings[c.cluster]
		if c.plain && standing == Absent {
			continue // identity providers have other groups with this beginning
		}
		if g.isReplaced(c.cluster, a.GetUser()) && !isOpen(a) {
			together, reason = authorizer.DecisionDeny, fmt.Sprintf("the agent %q has taken the place of this one in the managed cluster %q", g.current[c.cluster], c.cluster)
			continue
		}
		switch Decide(c.cluster, standing, a) {
		case authorizer.DecisionAllow:
			return authorizer.DecisionAllow, ""
		case authorizer.DecisionDeny:
			together, reason = authorizer.DecisionDeny, fmt.Sprintf("the managed cluster %q %s", c.cluster, standing)
		}
	}
	return together, reason
}

// isReplaced reports whether another agent has replaced the one that a user is.
// The caller holds the lock.
func (g *Agents) isReplaced(name string, u user.Info) bool {
	of, agent, ok := cluster.ParseCommonName(u.GetName())
	current := g.current[name]
	return ok && of == name && current != "" && current != agent
}

func (g *Agents) standing(name string) Standing {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.standings[name]
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

// Run watches the clusters until ctx ends. config needs the right to see all of
// them.
func (g *Agents) Run(ctx context.Context, config *rest.Config) error {
	c, err := client.NewWithWatch(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
	if err != nil {
		return err
	}
	clusters := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &clusterv1.ManagedClusterList{}
			return list, c.List(ctx, list, &client.ListOptions{Raw: &o})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &clusterv1.ManagedClusterList{}, &client.ListOptions{Raw: &o})
		},
	}
	cache.NewReflectorWithOptions(clusters, &clusterv1.ManagedCluster{}, feed{g}, cache.ReflectorOptions{Name: "ClusterAgent"}).RunWithContext(ctx)
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

// feed stores the standings of clusters. It is the store of a reflector.
type feed struct{ *Agents }

var _ cache.ReflectorStore = feed{}

func (f feed) Add(o any) error    { return f.set(o, standingOf) }
func (f feed) Update(o any) error { return f.set(o, standingOf) }
func (f feed) Delete(o any) error {
	return f.set(o, func(*clusterv1.ManagedCluster) Standing { return Absent })
}
func (feed) Resync() error { return nil }

func (f feed) set(o any, standing func(*clusterv1.ManagedCluster) Standing) error {
	mc, ok := o.(*clusterv1.ManagedCluster)
	if !ok {
		return fmt.Errorf("got a %T, want a ManagedCluster", o)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change(mc.Name, standing(mc), mc.Annotations[cluster.AgentAnnotation])
	return nil
}

// Replace stores a whole list.
func (f feed) Replace(list []any, _ string) error {
	now, agents := make(map[string]Standing, len(list)), map[string]string{}
	for _, o := range list {
		mc, ok := o.(*clusterv1.ManagedCluster)
		if !ok {
			return fmt.Errorf("got a %T, want a ManagedCluster", o)
		}
		now[mc.Name] = standingOf(mc)
		agents[mc.Name] = mc.Annotations[cluster.AgentAnnotation]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.standings {
		f.change(name, now[name], agents[name])
	}
	for name, standing := range now {
		f.change(name, standing, agents[name])
	}
	f.fillOnce.Do(func() { close(f.filled) })
	return nil
}

// change records a cluster's standing and its current agent (empty: any agent
// is served), and ends the watches that its agents no longer have the right to.
// The caller holds the lock.
func (g *Agents) change(name string, s Standing, agent string) {
	if g.standings[name] == s && g.current[name] == agent {
		return
	}
	if agent == "" || s == Absent {
		delete(g.current, name)
	} else {
		g.current[name] = agent
	}
	if s == Absent {
		delete(g.standings, name)
	} else {
		g.standings[name] = s
	}
	for w := range g.watches[name] {
		if decision, _ := g.decide(g.clustersOf(w.attributes.GetUser()), w.attributes); decision == authorizer.DecisionDeny {
			w.end()
		}
	}
}
