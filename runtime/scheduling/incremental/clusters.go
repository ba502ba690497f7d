package incremental

import (
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// UpsertCluster stores a new or changed cluster, and returns the placements
// whose result may change. What agents report every minute affects none.
func (e *Engine) UpsertCluster(o *clusterv1.ManagedCluster) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := affected{}
	c := e.fleet.getOrCreate(o.Name)
	was, wasThere, had := c.view, c.there(), c.free
	c.view, c.free = scheduling.NewView(o), freeOf(o)
	if was == nil {
		e.fleet.insert(c)
	}
	if was == nil || was.ManagedCluster != o && len(e.everything) > 0 && !sameVersion(was.ManagedCluster, o) {
		e.misjudged(c)
	}
	if was == nil || wasThere != c.there() || !maps.Equal(was.Labels, o.Labels) {
		if !wasThere {
			was = nil
		}
		e.join(c, was, a)
	}
	if wasThere && c.there() && was.ManagedCluster != o {
		e.compare(c, was, had, a)
	}
	return a.keys()
}

// DeleteCluster removes a cluster, and returns the placements whose result may
// change.
func (e *Engine) DeleteCluster(name string) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.fleet.byName[name]
	if c == nil || c.view == nil {
		return nil
	}
	a := affected{}
	e.fleet.remove(c)
	c.view = nil
	e.misjudged(c)
	e.join(c, nil, a)
	e.fleet.release(c)
	return a.keys()
}

// join adds a cluster to the sets that select it, and removes it from the
// others. was is the previous state of the cluster, if it could be chosen then.
func (e *Engine) join(c *cluster, was *scheduling.View, a affected) {
	for _, s := range slices.Clone(c.sets) {
		if !c.there() || !s.selects(c) {
			e.leave(s, c, a)
		}
	}
	if !c.there() {
		return
	}
	enter := func(s *set) {
		if !s.members.has(c.slot) && s.selects(c) {
			e.enter(s, c, a)
		}
	}
	if was != nil {
		e.setTerms.changed(label, was.Labels, c.view.Labels, enter)
		return
	}
	for _, s := range e.sets {
		enter(s)
	}
}

// enter makes a cluster a member of a set.
func (e *Engine) enter(s *set, c *cluster, a affected) {
	s.members.set(c.slot, true)
	c.sets = append(c.sets, s)
	s.concern(c, true, a)
}

// leave ends the membership.
func (e *Engine) leave(s *set, c *cluster, a affected) {
	s.members.set(c.slot, false)
	c.sets = slices.DeleteFunc(c.sets, func(x *set) bool { return x == s })
	s.concern(c, false, a)
}

// compare finds the placements that read something that has changed in a
// cluster.
func (e *Engine) compare(c *cluster, was *scheduling.View, had [resources]float64, a affected) {
	selectors := func(p *placement) {
		if p.sees(c) && p.selectsDifferently(c) {
			p.touch(c, a)
		}
	}
	if !maps.Equal(was.Labels, c.view.Labels) {
		e.placementTerms.changed(label, was.Labels, c.view.Labels, selectors)
	}
	if !slices.Equal(was.Status.ClusterClaims, c.view.Status.ClusterClaims) {
		e.placementTerms.changed(claimed, was.Claims(), c.view.Claims(), selectors)
	}
	if len(e.everything) > 0 && !sameVersion(was.ManagedCluster, c.view.ManagedCluster) {
		for p := range e.everything {
			if p.sees(c) {
				p.touch(c, a)
			}
		}
	}
	tainted := !slices.EqualFunc(was.Spec.Taints, c.view.Spec.Taints, sameTaint)
	var freed [resources]bool
	for r := range freed {
		freed[r] = !sameFree(had[r], c.free[r])
	}
	if !tainted && freed == [resources]bool{} {
		return
	}
	for _, s := range c.sets {
		for p := range s.users {
			if p.mayMatch(c) && (tainted || p.ranksBy(freed)) {
				p.touch(c, a)
			}
		}
	}
}

// sameVersion reports whether two objects look the same to an expression.
func sameVersion(a, b *clusterv1.ManagedCluster) bool {
	if a.ResourceVersion != b.ResourceVersion {
		return false
	}
	return a.ResourceVersion != "" || apiequality.Semantic.DeepEqual(a, b)
}

func sameTaint(a, b clusterv1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}

// selects reports whether a set's selector selects a cluster.
func (s *set) selects(c *cluster) bool {
	return s.selector != nil && s.selector.Matches(labels.Set(c.view.Labels))
}
