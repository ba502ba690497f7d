package incremental_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

// hub is a model and the engine that learns of every change of it.
type hub struct {
	*model
	*dice
	engine *incremental.Engine
	// decided counts the changes of decisions.
	decided int
}

// change makes a random change, and returns what it was and the placements that the engine says
// that it concerns.
func (h *hub) change() (what string, concerned []types.NamespacedName) {
	switch n := h.IntN(100); {
	case n < 42:
		return h.changeCluster(h.clusterName())
	case n < 46:
		return h.changeSet(h.setName())
	case n < 50:
		return h.changeBinding(types.NamespacedName{Namespace: h.namespace(), Name: h.setName()})
	case n < 60:
		return h.changePlacement(h.placementKey())
	case n < 72:
		return h.changeScore(types.NamespacedName{Namespace: h.clusterName(), Name: pick(h.dice, "cost", "load")})
	case n < 94:
		return h.changeDecisions(h.placementKey())
	}
	// Clocks are put back now and then.
	h.now = h.now.Add(time.Duration(h.IntN(24)-4) * time.Second)
	return "time passes until " + h.now.Format(time.TimeOnly), nil
}

func (h *hub) changeCluster(name string) (string, []types.NamespacedName) {
	c := h.clusters[name].DeepCopy()
	if c == nil {
		c = h.cluster(name, h.now)
		h.clusters[name] = c
		return "new cluster " + name, h.engine.UpsertCluster(c)
	}
	what := "nothing"
	switch h.IntN(13) {
	case 0:
		delete(h.clusters, name)
		return "no cluster " + name, h.engine.DeleteCluster(name)
	case 1, 2, 3:
		key := pick(h.dice, h.key(), h.key(), cluster.ClusterSetLabel)
		what = "label " + key
		switch {
		case h.one(4):
			delete(c.Labels, key)
		case key == cluster.ClusterSetLabel:
			c.Labels[key] = h.setName()
		default:
			c.Labels[key] = h.value()
		}
	case 4, 5:
		what, c.Status.ClusterClaims = "claims", h.claims()
	case 6, 7:
		what, c.Spec.Taints = "taints", h.taints(h.now)
	case 8:
		what, c.Status.Allocatable = "allocatable", h.amounts()
	case 9:
		what, c.Status.Capacity = "capacity", h.amounts()
	case 10:
		what, c.Annotations = "annotation", map[string]string{"note": h.value()}
	case 11:
		what = "condition"
		c.Status.Conditions = []metav1.Condition{{Type: "Joined", Status: pick(h.dice, metav1.ConditionTrue, metav1.ConditionFalse), Message: h.value()}}
	case 12:
		what, c.DeletionTimestamp = "deletion", ptr.To(metav1.NewTime(h.now))
	}
	h.clusters[name] = c
	return what + " of cluster " + name, h.engine.UpsertCluster(c)
}

func (h *hub) changeSet(name string) (string, []types.NamespacedName) {
	if h.sets[name] != nil && h.one(3) {
		delete(h.sets, name)
		return "no set " + name, h.engine.DeleteSet(name)
	}
	h.sets[name] = h.set(name)
	return "set " + name, h.engine.UpsertSet(h.sets[name])
}

func (h *hub) changeBinding(key types.NamespacedName) (string, []types.NamespacedName) {
	if h.bindings[key] {
		delete(h.bindings, key)
		return fmt.Sprint("no binding ", key), h.engine.DeleteBinding(key)
	}
	h.bindings[key] = true
	return fmt.Sprint("binding ", key), h.engine.UpsertBinding(key)
}

func (h *hub) changePlacement(key types.NamespacedName) (string, []types.NamespacedName) {
	p := h.placements[key].DeepCopy()
	switch {
	case p == nil || h.one(8):
		p = h.placement(key) // possibly in another's place
	case h.one(8):
		delete(h.placements, key)
		return fmt.Sprint("no placement ", key), h.engine.DeletePlacement(key)
	case h.one(4):
		p.Status.NumberOfSelectedClusters = int32(h.IntN(9))
		p.Generation += int64(h.IntN(2))
	default:
		p.Spec = h.spec()
		p.Generation++
	}
	h.placements[key] = p
	return fmt.Sprint("placement ", key), h.engine.UpsertPlacement(p)
}

func (h *hub) changeScore(key types.NamespacedName) (string, []types.NamespacedName) {
	if h.scores[key] != nil && h.one(5) {
		delete(h.scores, key)
		return fmt.Sprint("no score ", key), h.engine.DeleteScore(key)
	}
	h.scores[key] = h.score(key, h.now)
	return fmt.Sprint("score ", key), h.engine.UpsertScore(h.scores[key])
}

// changeDecisions writes a placement's decisions as its controller would, or
// spoils one of them.
func (h *hub) changeDecisions(key types.NamespacedName) (string, []types.NamespacedName) {
	h.decided++
	p := h.placements[key]
	if p == nil {
		return "nothing", nil
	}
	present := h.present(p)
	if len(present) > 0 && h.one(3) {
		return h.spoil(present[h.IntN(len(present))].DeepCopy())
	}
	var concerned []types.NamespacedName
	want := map[string]bool{}
	for _, d := range scheduling.Decisions(p.Name, h.schedule(p).Groups) {
		want[d.Name] = true
		o := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: d.Name, Labels: maps.Clone(d.Labels)}}
		o.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, clusterv1beta1.GroupVersion.WithKind("Placement"))}
		for _, c := range d.Clusters {
			o.Status.Decisions = append(o.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
		}
		h.write(o)
		concerned = append(concerned, h.engine.UpsertDecision(o)...)
	}
	for _, d := range present {
		if !want[d.Name] {
			h.erase(keyOf(d))
			concerned = append(concerned, h.engine.DeleteDecision(keyOf(d))...)
		}
	}
	return fmt.Sprint("decisions of ", key), concerned
}

// neighbour is a placement of a namespace.
func (h *hub) neighbour(namespace string) types.NamespacedName {
	for {
		if key := h.placementKey(); key.Namespace == namespace {
			return key
		}
	}
}

func (h *hub) spoil(d *clusterv1beta1.PlacementDecision) (string, []types.NamespacedName) {
	switch h.IntN(6) {
	case 0:
		h.erase(keyOf(d))
		return "no decision " + d.Name, h.engine.DeleteDecision(keyOf(d))
	case 1:
		d.Labels = nil
	case 2:
		d.Labels = map[string]string{cluster.PlacementLabel: h.neighbour(d.Namespace).Name}
	case 3:
		d.OwnerReferences = nil
	case 4:
		// An owner that is not the one that the name is of.
		if q := h.placements[h.neighbour(d.Namespace)]; q != nil {
			d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(q, clusterv1beta1.GroupVersion.WithKind("Placement"))}
		}
	case 5:
		// Twice the same, and one that there may not be.
		name := h.clusterName()
		d.Status.Decisions = append(slices.Clone(d.Status.Decisions), clusterv1beta1.ClusterDecision{ClusterName: name}, clusterv1beta1.ClusterDecision{ClusterName: name})
	}
	if h.one(3) && strings.HasSuffix(d.Name, "1") {
		d.Name = strings.TrimSuffix(d.Name, "1") + "renamed"
	}
	h.write(d)
	return "decision " + d.Name, h.engine.UpsertDecision(d)
}

// fill makes a hub with all there is room for.
func (h *hub) fill() {
	for i := range h.size {
		h.changeCluster(fmt.Sprintf("cluster-%03d", i))
	}
	for i := range 6 {
		h.changeSet(fmt.Sprintf("set-%d", i))
		for j := range 6 {
			if h.one(2) {
				h.changeBinding(types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", j), Name: fmt.Sprintf("set-%d", i)})
			}
		}
	}
	for i := range h.wishes {
		h.changePlacement(types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", i%6), Name: fmt.Sprintf("p%d", i)})
	}
	for i := range h.size {
		h.changeScore(types.NamespacedName{Namespace: fmt.Sprintf("cluster-%03d", i), Name: pick(h.dice, "cost", "load")})
	}
	for i := range h.wishes / 2 {
		h.changeDecisions(types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", i%6), Name: fmt.Sprintf("p%d", i)})
	}
}
