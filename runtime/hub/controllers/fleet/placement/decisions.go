package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

// inSafeOrder puts decisions into the order in which to write them: one that
// takes a cluster over comes before the one that gives it away. In between the
// cluster is in both. If it were in none, controllers that follow the decisions
// would remove its workloads. Decisions that give clusters to each other have no
// such order; there the first one by name is written first.
func inSafeOrder(want []scheduling.Decision, present map[string]*clusterv1beta1.PlacementDecision) []scheduling.Decision {
	goesTo := map[string]int{}
	for i, w := range want {
		for _, cluster := range w.Clusters {
			goesTo[cluster] = i
		}
	}
	out := make([]scheduling.Decision, 0, len(want))
	seen := make([]bool, len(want))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		if d := present[want[i].Name]; d != nil {
			for _, c := range d.Status.Decisions {
				if to, ok := goesTo[c.ClusterName]; ok {
					visit(to)
				}
			}
		}
		out = append(out, want[i])
	}
	for i := range want {
		visit(i)
	}
	return out
}

// disposable reports whether a placement may delete a decision that it does not
// want. It may not delete one that another placement owns and is about to label
// again, nor one that only has a name like its own.
func disposable(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement) bool {
	owner := metav1.GetControllerOf(d)
	if owner == nil || owner.Kind != "Placement" || owner.Name == p.Name {
		return d.Labels[cluster.PlacementLabel] == p.Name || metav1.IsControlledBy(d, p)
	}
	return false
}

// owned reports whether a decision has the labels and the owner that it should
// have.
func owned(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement, labels map[string]string) bool {
	for key, want := range labels {
		if have, ok := d.Labels[key]; !ok || have != want {
			return false
		}
	}
	return metav1.IsControlledBy(d, p)
}

// own gives a decision the labels and the owner that it should have, and leaves
// what others added.
func own(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement, labels map[string]string) {
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	maps.Copy(d.Labels, labels)
	if metav1.IsControlledBy(d, p) {
		return
	}
	// The owner may be a placement of the same name that is gone. Its decisions
	// would soon be collected, although this placement wants them.
	owners := slices.DeleteFunc(slices.Clone(d.OwnerReferences), func(o metav1.OwnerReference) bool {
		return ptr.Deref(o.Controller, false) || o.UID == p.UID
	})
	d.OwnerReferences = append(owners, metav1.OwnerReference{
		APIVersion: clusterv1beta1.GroupVersion.String(), Kind: "Placement", Name: p.Name, UID: p.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	})
}

// cutOff ends a list of scores that would have been longer, as upstream's do.
const cutOff = "......"

func (c *Controller) eventf(p *clusterv1beta1.Placement, d *clusterv1beta1.PlacementDecision, reason, action, verb string) {
	c.events.Eventf(p, d, corev1.EventTypeNormal, reason, action, "Decision %s is %s with placement %s in namespace %s", d.Name, verb, p.Name, p.Namespace)
}

// updated reports that a decision holds other clusters, and what was wrong when
// they were chosen.
func (c *Controller) updated(p *clusterv1beta1.Placement, d *clusterv1beta1.PlacementDecision, warning *scheduling.Problem) {
	if warning == nil {
		c.eventf(p, d, "DecisionUpdate", "DecisionUpdated", "updated")
		return
	}
	note := fmt.Sprintf("Decision %s is updated with placement %s in namespace %s: %s in plugin %s", d.Name, p.Name, p.Namespace, warning.Message, warning.Plugin)
	c.events.Eventf(p, d, corev1.EventTypeWarning, "DecisionUpdate", "DecisionUpdated", "%s", text.Cut(note, limits.EventNote))
}

// notes remembers the last event of each placement, by its reason.
type notes struct {
	mu   sync.Mutex
	last map[types.NamespacedName]map[string]string
}

// news reports whether a note differs from the last one of that reason, and
// remembers it.
func (n *notes) news(key types.NamespacedName, reason, note string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if note == "" || n.last[key][reason] == note {
		return false
	}
	if n.last == nil {
		n.last = map[types.NamespacedName]map[string]string{}
	}
	if n.last[key] == nil {
		n.last[key] = map[string]string{}
	}
	n.last[key][reason] = note
	return true
}

// forget drops the notes of a placement that is gone.
func (n *notes) forget(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.last, key)
}

// scored reports the scores behind a decision that was written, unless they are
// the same as last time.
func (c *Controller) scored(p *clusterv1beta1.Placement, d *clusterv1beta1.PlacementDecision) {
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	// A name, a colon, a digit and a space are the least that a cluster takes.
	note := scoreNote(c.engine.Totals(key, limits.EventNote/4+1))
	if c.notes.news(key, "ScoreUpdate", note) {
		c.events.Eventf(p, d, corev1.EventTypeNormal, "ScoreUpdate", "ScoreUpdated", "%s", note)
	}
}

// explained reports, with a decision that was written, how the choice was made,
// unless that is the same as last time. Which rule left out which cluster is too
// long for an event; the debug endpoint and previews have it.
func (c *Controller) explained(s incremental.Scheduled, d *clusterv1beta1.PlacementDecision) {
	key := types.NamespacedName{Namespace: s.Placement.Namespace, Name: s.Placement.Name}
	note := explanationNote(s.Funnel, s.Result)
	if c.notes.news(key, "DecisionExplain", note) {
		c.events.Eventf(s.Placement, d, corev1.EventTypeNormal, "DecisionExplain", "DecisionExplained", "%s", note)
	}
}

// explanationNote says how many clusters each step of a scheduling left out;
// nothing when the placement cannot be read, which its conditions report.
func explanationNote(f incremental.Funnel, r scheduling.Result) string {
	if r.Misconfigured != nil {
		return ""
	}
	var out []string
	for _, step := range []struct {
		n   int
		why string
	}{
		{f.Available - f.Matching, "%d satisfy no predicate"},
		{f.Matching - f.Tolerated, "%d have taints that are not tolerated"},
		{f.Tolerated - r.Selected, "%d were left out at the cut"},
	} {
		if step.n > 0 {
			out = append(out, fmt.Sprintf(step.why, step.n))
		}
	}
	note := fmt.Sprintf("Chosen are %d of %d clusters", r.Selected, f.Available)
	if len(out) > 0 {
		note += ": " + strings.Join(out, ", ")
	}
	return note
}

// scoreNote lists total scores as far as there is room.
func scoreNote(totals []incremental.Total) string {
	var note strings.Builder
	for _, t := range totals {
		one := fmt.Sprintf("%s:%d ", t.Cluster, t.Total)
		if note.Len()+len(one) > limits.EventNote {
			note.WriteString(cutOff)
			break
		}
		note.WriteString(one)
	}
	return note.String()
}
