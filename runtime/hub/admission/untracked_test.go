package admission

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestObjectsOfProgramsHaveNoManagedFields(t *testing.T) {
	const updated = `{"manager":"muster-hub","operation":"Update"}`
	const appliedToo = updated + `,{"manager":"terraform","operation":"Apply"}`
	custom := func(labels, entries string) runtime.Object {
		return object([]byte(`{"metadata":{"name":"x","labels":{` + labels + `},"managedFields":[` + entries + `]}}`))
	}
	lease := func(operation metav1.ManagedFieldsOperationType) runtime.Object {
		entries := []metav1.ManagedFieldsEntry{{Manager: "x", Operation: operation}}
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries}}
	}
	works := workv1.GroupVersion.WithResource("manifestworks")
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	decisions := clusterv1beta1.GroupVersion.WithResource("placementdecisions")
	clusters := clusterv1.GroupVersion.WithResource("managedclusters")
	const ofSet = `"work.open-cluster-management.io/manifestworkreplicaset":"ns.set"`
	const ofAddOn = `"open-cluster-management.io/addon-name":"search"`
	write := func(resource schema.GroupVersionResource, o runtime.Object) error {
		return untracked{}.Admit(context.Background(), admission.NewAttributesRecord(
			o, nil, schema.GroupVersionKind{}, "ns", "x", resource, "status", admission.Update, nil, false, nil), nil)
	}
	for name, x := range map[string]struct {
		resource schema.GroupVersionResource
		object   runtime.Object
		kept     bool
	}{
		"a work of a replica set":             {works, custom(ofSet, updated), false},
		"a work of an add-on":                 {works, custom(ofAddOn, updated), false},
		"a work without managed fields":       {works, custom(ofSet, ""), false},
		"a work of a set that was applied":    {works, custom(ofSet, appliedToo), true},
		"a work of a person":                  {works, custom(`"app":"shop"`, updated), true},
		"a decision":                          {decisions, custom("", updated), false},
		"a decision that was applied":         {decisions, custom("", appliedToo), true},
		"a lease":                             {leases, lease(metav1.ManagedFieldsOperationUpdate), false},
		"a lease that was applied":            {leases, lease(metav1.ManagedFieldsOperationApply), true},
		"a cluster with a label of an add-on": {clusters, custom(ofAddOn, updated), true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := write(x.resource, x.object); err != nil {
				t.Fatal(err)
			}
			m, err := meta.Accessor(x.object)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(m.GetManagedFields()) > 0; got != x.kept {
				t.Errorf("managed fields are kept: %v, want %v", got, x.kept)
			}
		})
	}
	for name, unreadable := range map[string]string{
		"no metadata":             `{}`,
		"metadata that is a list": `{"metadata":[]}`,
		"labels that are a list":  `{"metadata":{"labels":[]}}`,
		"entries that are no objects": `{"metadata":{"labels":{` + ofSet + `},
			"managedFields":[1,null,"x",{"operation":1}]}}`,
	} {
		if err := write(works, object([]byte(unreadable))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
