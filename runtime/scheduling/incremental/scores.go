package incremental

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// UpsertScore stores the scores that an add-on publishes about a cluster, whose
// name is the namespace, and returns the placements whose result may change.
func (e *Engine) UpsertScore(o *clusterv1alpha1.AddOnPlacementScore) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.fleet.getOrCreate(o.Namespace)
	was := c.scores[o.Name]
	scores := make(map[string]*clusterv1alpha1.AddOnPlacementScore, len(c.scores)+1)
	maps.Copy(scores, c.scores)
	scores[o.Name] = o
	c.scores = scores
	if was != nil && apiequality.Semantic.DeepEqual(was.Status, o.Status) {
		return nil
	}
	return e.scored(c, o.Name)
}

// DeleteScore removes scores about a cluster, and returns the placements whose
// result may change.
func (e *Engine) DeleteScore(key types.NamespacedName) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.fleet.byName[key.Namespace]
	if c == nil || c.scores[key.Name] == nil {
		return nil
	}
	scores := maps.Clone(c.scores)
	delete(scores, key.Name)
	c.scores = scores
	out := e.scored(c, key.Name)
	e.fleet.release(c)
	return out
}

func (e *Engine) scored(c *cluster, name string) []types.NamespacedName {
	a := affected{}
	for p := range e.scoreReaders[name] {
		if p.sees(c) && p.mayMatch(c) {
			p.touch(c, a)
		}
	}
	c.changes++
	for p := range e.everything {
		if !p.reads.anyScore {
			continue
		}
		p.judgements.drop(c.slot)
		if p.sees(c) {
			p.touch(c, a)
		}
	}
	return a.keys()
}
