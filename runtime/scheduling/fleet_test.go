package scheduling_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// specOf reads a placement's specification from YAML.
func specOf(t testing.TB, text string) clusterv1beta1.PlacementSpec {
	t.Helper()
	var spec clusterv1beta1.PlacementSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatalf("read the specification: %v", err)
	}
	return spec
}

// byEnv is a specification with one label to select by.
const byEnv = `predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: env, operator: In, values: [prod, stage]}]}}}]`

// compiled reads a placement's specification from YAML and compiles it.
func compiled(t testing.TB, spec string) *scheduling.Compiled {
	t.Helper()
	return scheduling.Compile(&clusterv1beta1.Placement{Spec: specOf(t, spec)}, scheduling.Options{})
}

// fleetOf reads clusters from YAML, by their names.
func fleetOf(t testing.TB, text string) []*clusterv1.ManagedCluster {
	t.Helper()
	var byName map[string]*clusterv1.ManagedCluster
	if err := yaml.UnmarshalStrict([]byte(text), &byName); err != nil {
		t.Fatalf("read the clusters: %v", err)
	}
	var out []*clusterv1.ManagedCluster
	for name, c := range byName {
		if c == nil {
			c = &clusterv1.ManagedCluster{}
		}
		c.Name = name
		out = append(out, c)
	}
	return out
}

// scoresOf are AddOnPlacementScores, given as "cluster/name score=value …".
func scoresOf(lines ...string) scheduling.ScoreGetter {
	all := map[string]*clusterv1alpha1.AddOnPlacementScore{}
	for _, line := range lines {
		key, items, _ := strings.Cut(line, " ")
		s := &clusterv1alpha1.AddOnPlacementScore{}
		for item := range strings.FieldsSeq(items) {
			var i clusterv1alpha1.AddOnPlacementScoreItem
			i.Name, items, _ = strings.Cut(item, "=")
			if _, err := fmt.Sscan(items, &i.Value); err != nil {
				panic(err)
			}
			s.Status.Scores = append(s.Status.Scores, i)
		}
		all[key] = s
	}
	return func(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
		return all[clusterName+"/"+resourceName]
	}
}

// inGroups are the decisions, group by group.
func inGroups(r scheduling.Result) string {
	var out []string
	for _, g := range r.Groups {
		out = append(out, g.Name+":"+strings.Join(g.Clusters, ","))
	}
	return strings.Join(out, " ")
}
