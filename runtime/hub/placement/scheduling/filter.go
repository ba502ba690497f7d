package scheduling

import (
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Filter leaves the clusters that qualify.
type Filter interface {
	Name() string
	// Filter returns the clusters that are left and, when a toleration expires,
	// how long the result holds.
	Filter(in Input, clusters []*clusterv1.ManagedCluster) (left []*clusterv1.ManagedCluster, holds time.Duration, o outcome)
}

// filters run in this order.
func filters() []Filter { return []Filter{predicateFilter{}, taintFilter{}} }

func filter(in Input, result *Result) ([]*clusterv1.ManagedCluster, outcome) {
	clusters := in.Clusters
	var ran []string
	for _, f := range filters() {
		left, holds, o := f.Filter(in, clusters)
		if o.code != success {
			o.plugin = f.Name()
			return nil, o
		}
		clusters = left
		ran = append(ran, f.Name())
		result.Filters = append(result.Filters, FilterResult{Name: strings.Join(ran, ","), Clusters: names(left)})
		result.RequeueAfter = earliest(result.RequeueAfter, holds)
	}
	return clusters, outcome{}
}

// predicateFilter leaves the clusters that satisfy any of the predicates.
type predicateFilter struct{}

func (predicateFilter) Name() string { return "Predicate" }

func (predicateFilter) Filter(in Input, clusters []*clusterv1.ManagedCluster) ([]*clusterv1.ManagedCluster, time.Duration, outcome) {
	predicates := in.Placement.Spec.Predicates
	if len(predicates) == 0 || len(clusters) == 0 {
		return clusters, 0, outcome{}
	}
	var matchers []matcher
	for i, p := range predicates {
		s := p.RequiredClusterSelector
		if len(s.CELSelector.CELExpressions) > 0 {
			return nil, 0, outcome{code: misconfigured, message: fmt.Sprintf("spec.predicates[%d].requiredClusterSelector.celSelector is not supported by this hub yet: use labelSelector or claimSelector", i)}
		}
		m, err := newMatcher(s.LabelSelector, s.ClaimSelector)
		if err != nil {
			return nil, 0, outcome{code: misconfigured, message: err.Error()}
		}
		matchers = append(matchers, m)
	}
	var left []*clusterv1.ManagedCluster
	for _, c := range clusters {
		for _, m := range matchers {
			if m.matches(c) {
				left = append(left, c)
				break
			}
		}
	}
	return left, 0, outcome{}
}

// matcher matches clusters by labels and claims, both.
type matcher struct{ labels, claims labels.Selector }

func newMatcher(label metav1.LabelSelector, claim clusterv1beta1.ClusterClaimSelector) (matcher, error) {
	l, err := metav1.LabelSelectorAsSelector(&label)
	if err != nil {
		return matcher{}, err
	}
	c, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: claim.MatchExpressions})
	return matcher{l, c}, err
}

func (m matcher) matches(c *clusterv1.ManagedCluster) bool {
	if !m.labels.Matches(labels.Set(c.Labels)) {
		return false
	}
	if m.claims.Empty() {
		return true
	}
	claims := labels.Set{}
	for _, x := range c.Status.ClusterClaims {
		claims[x.Name] = x.Value
	}
	return m.claims.Matches(claims)
}

// taintFilter leaves the clusters whose taints are all tolerated.
type taintFilter struct{}

func (taintFilter) Name() string { return "TaintToleration" }

func (taintFilter) Filter(in Input, clusters []*clusterv1.ManagedCluster) ([]*clusterv1.ManagedCluster, time.Duration, outcome) {
	if len(clusters) == 0 {
		return clusters, 0, outcome{}
	}
	tolerations := in.Placement.Spec.Tolerations
	for _, t := range tolerations {
		if t.Key == "" && t.Operator != clusterv1beta1.TolerationOpExists {
			return nil, 0, outcome{code: misconfigured, message: "If the key is empty, operator must be Exists."}
		}
		if t.Operator == clusterv1beta1.TolerationOpExists && t.Value != "" {
			return nil, 0, outcome{code: misconfigured, message: "If the operator is Exists, the value should be empty."}
		}
	}
	var left []*clusterv1.ManagedCluster
	var holds time.Duration
	for _, c := range clusters {
		tolerated := true
		for _, taint := range c.Spec.Taints {
			ok, until := tolerates(taint, tolerations, in.Selected[c.Name], in.Now)
			tolerated = tolerated && ok
			// The timer is for clusters that are chosen already; a new one gets
			// its own once it is.
			if ok && in.Selected[c.Name] {
				holds = earliest(holds, until)
			}
		}
		if tolerated {
			left = append(left, c)
		}
	}
	return left, holds, outcome{}
}

// longest is how many seconds a duration can hold, some 292 years. A toleration
// of more never expires.
const longest = int64(math.MaxInt64 / time.Second)

// tolerates reports whether a taint does not matter, and for how long; 0 is for
// ever.
func tolerates(taint clusterv1.Taint, tolerations []clusterv1beta1.Toleration, selected bool, now time.Time) (ok bool, until time.Duration) {
	switch taint.Effect {
	case clusterv1.TaintEffectPreferNoSelect:
		return true, 0
	case clusterv1.TaintEffectNoSelectIfNew:
		if selected {
			return true, 0
		}
	}
	for _, t := range tolerations {
		if !concerns(t, taint) {
			continue
		}
		if t.TolerationSeconds == nil {
			return true, 0
		}
		var added time.Time
		if taint.TimeAdded != nil {
			added = taint.TimeAdded.Time
		}
		if *t.TolerationSeconds > longest {
			return true, 0
		}
		if left := added.Add(time.Duration(*t.TolerationSeconds) * time.Second).Sub(now); left > 0 {
			return true, left
		}
	}
	return false, 0
}

// concerns reports whether a toleration is about a taint.
func concerns(t clusterv1beta1.Toleration, taint clusterv1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", clusterv1beta1.TolerationOpEqual:
		return t.Value == taint.Value
	case clusterv1beta1.TolerationOpExists:
		return true
	}
	return false
}
