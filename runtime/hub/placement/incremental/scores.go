package incremental

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// UpsertScore takes the scores that an add-on publishes about a cluster, whose
// name is the namespace, and returns the placements whose result may be another
// one now.
func (e *Engine) UpsertScore(o *clusterv1alpha1.AddOnPlacementScore) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.fleet.record(o.Namespace)
	was := c.scores[o.Name]
	if c.scores == nil {
		c.scores = map[string]*clusterv1alpha1.AddOnPlacementScore{}
	}
	c.scores[o.Name] = o
	if was != nil && apiequality.Semantic.DeepEqual(was.Status, o.Status) {
		return nil
	}
	return e.scored(c, o.Name)
}

// DeleteScore takes note that scores about a cluster are gone, and returns the
// placements whose result may be another one now.
func (e *Engine) DeleteScore(key types.NamespacedName) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.fleet.byName[key.Namespace]
	if c == nil || c.scores[key.Name] == nil {
		return nil
	}
	delete(c.scores, key.Name)
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
	for p := range e.everything {
		if p.sees(c) && p.reads.anyScore {
			p.touch(c, a)
		}
	}
	return a.keys()
}

// scoresOf looks up scores for the scheduling library.
func (e *Engine) scoresOf(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
	if c := e.fleet.byName[clusterName]; c != nil {
		return c.scores[resourceName]
	}
	return nil
}
