package scheduling

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Dependencies is what a placement's decision can depend on, beside which
// clusters there are, their taints, the placement's own decisions and the time.
type Dependencies struct {
	// Labels and Claims are the keys that selectors and spread constraints look at.
	Labels, Claims map[string]Values
	// Object is that an expression sees all of a cluster.
	Object bool
	// ObjectScores is that an expression may read AddOnPlacementScores of any name.
	ObjectScores bool
	// Scores are the names of the AddOnPlacementScores that prioritizers read.
	Scores []string
	// Resources are those whose allocatable amount and capacity count.
	Resources []clusterv1.ResourceName
}

// Values tells what about a label's or claim's value matters.
type Values struct {
	// Any is that every change matters. The rest has no meaning then.
	Any bool
	// Presence is that it matters whether there is a value.
	Presence bool
	// Equal are the values that differ from all others.
	Equal []string
}

// same tells whether two values, of which either may be missing, mean the same.
func (v Values) same(was string, had bool, is string, has bool) bool {
	if v.Any || had && slices.Contains(v.Equal, was) || has && slices.Contains(v.Equal, is) {
		return had == has && was == is
	}
	return !v.Presence || had == has
}

// Depends tells what the placement's decision can depend on.
func (c *Compiled) Depends() Dependencies {
	d := Dependencies{Labels: map[string]Values{}, Claims: map[string]Values{}}
	for _, p := range c.predicates {
		d.add(p.clusterSelector)
		for _, e := range p.expressions {
			d.Object = true
			d.ObjectScores = d.ObjectScores || strings.Contains(e.text, "scores")
		}
	}
	for _, g := range c.groups {
		d.add(g.clusterSelector)
	}
	if c.Spreads() {
		for _, s := range c.placement.Spec.SpreadPolicy.SpreadConstraints {
			keys := d.Labels
			if s.TopologyKeyType == clusterv1beta1.TopologyKeyTypeClaim {
				keys = d.Claims
			}
			keys[s.TopologyKey] = Values{Any: true}
		}
	}
	scores, resources := map[string]bool{}, map[clusterv1.ResourceName]bool{}
	for _, p := range c.prioritizers {
		switch p.Kind {
		case AddOn:
			scores[p.AddOn.ResourceName] = true
		case Allocatable:
			resources[p.Resource] = true
		}
	}
	d.Scores, d.Resources = slices.Sorted(maps.Keys(scores)), slices.Sorted(maps.Keys(resources))
	return d
}

func (d *Dependencies) add(s clusterSelector) {
	for _, x := range []struct {
		selector labels.Selector
		keys     map[string]Values
	}{{s.labels, d.Labels}, {s.claims, d.Claims}} {
		keys := x.keys
		requirements, _ := x.selector.Requirements()
		for _, r := range requirements {
			v := keys[r.Key()]
			switch r.Operator() {
			case selection.In, selection.NotIn, selection.Equals, selection.DoubleEquals, selection.NotEquals:
				v.Equal = slices.Compact(slices.Sorted(slices.Values(append(v.Equal, r.ValuesUnsorted()...))))
			case selection.Exists, selection.DoesNotExist:
				v.Presence = true
			default:
				v.Any = true
			}
			keys[r.Key()] = v
		}
	}
}

// Concerned tells whether a change of a cluster's labels, claims, resources or,
// when an expression sees them, other fields can make a difference. Its taints
// and its deletion are not looked at.
func (d *Dependencies) Concerned(was, is *clusterv1.ManagedCluster) bool {
	if d.Object {
		return true
	}
	for key, v := range d.Labels {
		a, had := was.Labels[key]
		b, has := is.Labels[key]
		if !v.same(a, had, b, has) {
			return true
		}
	}
	if len(d.Claims) > 0 {
		before, after := NewView(was).Claims(), NewView(is).Claims()
		for key, v := range d.Claims {
			a, had := before[key]
			b, has := after[key]
			if !v.same(a, had, b, has) {
				return true
			}
		}
	}
	for _, r := range d.Resources {
		a, had := Free(was, r)
		b, has := Free(is, r)
		if had != has || a != b {
			return true
		}
	}
	return false
}
