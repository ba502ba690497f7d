package scheduling

import (
	"math"
	"time"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// longest is the greatest number of seconds in a duration, about 292 years. A
// longer toleration never expires.
const longest = int64(math.MaxInt64 / time.Second)

// checkTolerations returns the first toleration that contradicts itself.
func checkTolerations(tolerations []clusterv1beta1.Toleration) *Problem {
	for _, t := range tolerations {
		if t.Key == "" && t.Operator != clusterv1beta1.TolerationOpExists {
			return &Problem{Plugin: taintFilter, Message: "If the key is empty, operator must be Exists."}
		}
		if t.Operator == clusterv1beta1.TolerationOpExists && t.Value != "" {
			return &Problem{Plugin: taintFilter, Message: "If the operator is Exists, the value should be empty."}
		}
	}
	return nil
}

// tolerates reports whether a taint admits its cluster, whether it asks to
// prefer others, and until when that is valid; zero means forever.
func (c *Compiled) tolerates(taint *clusterv1.Taint, selected bool, now time.Time) (ok, avoid bool, until time.Time) {
	switch taint.Effect {
	case clusterv1.TaintEffectPreferNoSelect:
		if !c.options.PreferNoSelect {
			return true, false, time.Time{}
		}
		tolerated, until := c.excused(taint, now)
		return true, !tolerated, until
	case clusterv1.TaintEffectNoSelectIfNew:
		if selected {
			return true, false, time.Time{}
		}
	}
	ok, until = c.excused(taint, now)
	return ok, false, until
}

// excused reports whether a toleration applies to a taint and has not expired.
// The first such toleration decides until when.
func (c *Compiled) excused(taint *clusterv1.Taint, now time.Time) (ok bool, until time.Time) {
	for i := range c.placement.Spec.Tolerations {
		t := &c.placement.Spec.Tolerations[i]
		if !concerns(t, taint) {
			continue
		}
		end, ends := expiry(t, taint)
		if !ends {
			return true, time.Time{}
		}
		if end.After(now) {
			return true, end
		}
	}
	return false, time.Time{}
}

// expiry is when a toleration of a taint expires, if it does.
func expiry(t *clusterv1beta1.Toleration, taint *clusterv1.Taint) (end time.Time, ends bool) {
	if t.TolerationSeconds == nil || *t.TolerationSeconds > longest {
		return time.Time{}, false
	}
	var added time.Time
	if taint.TimeAdded != nil {
		added = taint.TimeAdded.Time
	}
	return added.Add(time.Duration(*t.TolerationSeconds) * time.Second), true
}

// concerns reports whether a toleration is about a taint.
func concerns(t *clusterv1beta1.Toleration, taint *clusterv1.Taint) bool {
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
