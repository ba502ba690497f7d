package membership_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

const setLabel = "cluster.open-cluster-management.io/clusterset"

func set(name string, selector clusterv1beta2.ManagedClusterSelector) *clusterv1beta2.ManagedClusterSet {
	return &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: selector}}
}

func byLabels(selector *metav1.LabelSelector) clusterv1beta2.ManagedClusterSelector {
	return clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: selector}
}

func TestSelector(t *testing.T) {
	for name, x := range map[string]struct {
		selector clusterv1beta2.ManagedClusterSelector
		labels   labels.Set
		want     bool
	}{
		"no type goes by the set's label":         {clusterv1beta2.ManagedClusterSelector{}, labels.Set{setLabel: "blue"}, true},
		"no type leaves out another set's member": {clusterv1beta2.ManagedClusterSelector{}, labels.Set{setLabel: "red"}, false},
		"exclusive goes by the set's label":       {clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.ExclusiveClusterSetLabel}, labels.Set{setLabel: "blue"}, true},
		"exclusive does not read labelSelector":   {clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.ExclusiveClusterSetLabel, LabelSelector: &metav1.LabelSelector{}}, nil, false},
		"an empty labelSelector selects all":      {byLabels(&metav1.LabelSelector{}), nil, true},
		"no labelSelector selects nothing":        {byLabels(nil), labels.Set{setLabel: "blue"}, false},
		"labels that match":                       {byLabels(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}), labels.Set{"a": "b"}, true},
		"labels that do not match":                {byLabels(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}), labels.Set{"a": "c", setLabel: "blue"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := membership.Selector(set("blue", x.selector))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Matches(x.labels); got != x.want {
				t.Errorf("matches %v: %v, want %v", x.labels, got, x.want)
			}
		})
	}
}

func TestSelectorNamesWhatIsWrong(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	for field, selector := range map[string]clusterv1beta2.ManagedClusterSelector{
		`spec.clusterSelector.selectorType "Luck" is neither ExclusiveClusterSetLabel nor LabelSelector`: {SelectorType: "Luck"},
		`spec.clusterSelector.labelSelector: "Like" is not a valid label selector operator`:              byLabels(bad),
	} {
		t.Run(field, func(t *testing.T) {
			if _, err := membership.Selector(set("blue", selector)); err == nil || !strings.Contains(err.Error(), "the cluster set blue: "+field) {
				t.Errorf("the error is %v, want one that names the set and %s", err, field)
			}
		})
	}
}

func TestEligible(t *testing.T) {
	exists := func(name string) bool { return name != "gone" }
	for name, x := range map[string]struct {
		bound, named, valid, eligible []string
	}{
		"nothing bound":                   {},
		"all that are bound, by name":     {bound: []string{"b", "a"}, valid: []string{"a", "b"}, eligible: []string{"a", "b"}},
		"a set that is gone":              {bound: []string{"gone"}},
		"a set bound twice":               {bound: []string{"a", "a"}, valid: []string{"a"}, eligible: []string{"a"}},
		"of those bound, those named":     {bound: []string{"c", "b", "a"}, named: []string{"c", "a"}, valid: []string{"a", "b", "c"}, eligible: []string{"a", "c"}},
		"named, not bound":                {bound: []string{"a"}, named: []string{"b"}, valid: []string{"a"}},
		"named and bound, but it is gone": {bound: []string{"a", "gone"}, named: []string{"gone"}, valid: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			valid, eligible := membership.Eligible(x.bound, exists, x.named)
			if !slices.Equal(valid, x.valid) || !slices.Equal(eligible, x.eligible) {
				t.Errorf("valid %v, eligible %v, want %v and %v", valid, eligible, x.valid, x.eligible)
			}
		})
	}
}

func TestClusters(t *testing.T) {
	var all []*clusterv1.ManagedCluster
	for _, c := range []struct{ name, set string }{{"c", "blue"}, {"a", "red"}, {"going", "blue"}, {"b", "blue"}, {"d", "default"}} {
		all = append(all, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: c.name, Labels: map[string]string{setLabel: c.set}}})
	}
	all[2].DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
	blue, red := set("blue", clusterv1beta2.ManagedClusterSelector{}), set("red", clusterv1beta2.ManagedClusterSelector{})
	for name, x := range map[string]struct {
		sets []*clusterv1beta2.ManagedClusterSet
		want []string
	}{
		"no set":                              {nil, nil},
		"one, without those being deleted":    {[]*clusterv1beta2.ManagedClusterSet{blue}, []string{"c", "b"}},
		"several, in the order given":         {[]*clusterv1beta2.ManagedClusterSet{red, blue}, []string{"c", "a", "b"}},
		"a member of two sets comes once":     {[]*clusterv1beta2.ManagedClusterSet{blue, set("all", byLabels(&metav1.LabelSelector{}))}, []string{"c", "a", "b", "d"}},
		"a bad set does not spoil the others": {[]*clusterv1beta2.ManagedClusterSet{set("bad", clusterv1beta2.ManagedClusterSelector{SelectorType: "Luck"}), red}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range membership.Clusters(x.sets, all) {
				got = append(got, c.Name)
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("the members are %v, want %v", got, x.want)
			}
		})
	}
}
