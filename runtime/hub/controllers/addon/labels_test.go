package addon

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

func addOn(name string, status metav1.ConditionStatus) addonv1alpha1.ManagedClusterAddOn {
	a := addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if status != "" {
		a.Status.Conditions = []metav1.Condition{{Type: "Available", Status: status}}
	}
	return a
}

func TestLabels(t *testing.T) {
	deleting := addOn("leaving", "True")
	deleting.DeletionTimestamp = &metav1.Time{}
	deleting.DeletionTimestamp.Time = deleting.DeletionTimestamp.AddDate(2026, 0, 0)
	const prefix = "feature.open-cluster-management.io/addon-"
	long := strings.Repeat("x", 60)
	for name, x := range map[string]struct {
		have    map[string]string
		addOns  []addonv1alpha1.ManagedClusterAddOn
		want    map[string]string
		tooLong []string
	}{
		"none":                  {map[string]string{"env": "prod"}, nil, map[string]string{"env": "prod"}, nil},
		"each state":            {nil, []addonv1alpha1.ManagedClusterAddOn{addOn("a", "True"), addOn("b", "False"), addOn("c", "Unknown"), addOn("d", "")}, map[string]string{prefix + "a": "available", prefix + "b": "unhealthy", prefix + "c": "unreachable", prefix + "d": "unreachable"}, nil},
		"others' labels":        {map[string]string{"env": "prod", prefix + "a": "unhealthy"}, []addonv1alpha1.ManagedClusterAddOn{addOn("a", "True")}, map[string]string{"env": "prod", prefix + "a": "available"}, nil},
		"gone":                  {map[string]string{prefix + "gone": "available"}, nil, nil, nil},
		"on its way out":        {map[string]string{prefix + "leaving": "available"}, []addonv1alpha1.ManagedClusterAddOn{deleting}, nil, nil},
		"a name beyond a label": {nil, []addonv1alpha1.ManagedClusterAddOn{addOn(long, "True"), addOn("a", "True")}, map[string]string{prefix + "a": "available"}, []string{long}},
	} {
		t.Run(name, func(t *testing.T) {
			got, tooLong := labels(x.have, x.addOns)
			if !maps.Equal(got, x.want) || !slices.Equal(tooLong, x.tooLong) {
				t.Errorf("got %v and %q, want %v and %q", got, tooLong, x.want, x.tooLong)
			}
		})
	}
}
