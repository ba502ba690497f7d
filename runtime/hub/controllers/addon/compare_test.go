package addon_test

import (
	"fmt"
	"slices"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// addOnsIn are the add-ons of a namespace in a version, with all that the server
// says.
func addOnsIn(t testing.TB, version, namespace string) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(env.Config("muster-test"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: version, Resource: "managedclusteraddons"}).Namespace(namespace)
}

// sameButFor tells what differs between two states of an object, apart from one
// condition, which has to be in the latter.
func sameButFor(before, after *unstructured.Unstructured, condition string) error {
	after = after.DeepCopy()
	conditions, _, err := unstructured.NestedSlice(after.Object, "status", "conditions")
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(conditions), func(c any) bool { return c.(map[string]any)["type"] == condition })
	if len(rest) != len(conditions)-1 {
		return fmt.Errorf("the conditions are %v, want one %s among them", conditions, condition)
	}
	if err := unstructured.SetNestedSlice(after.Object, rest, "status", "conditions"); err != nil {
		return err
	}
	for _, field := range []string{"spec", "status"} {
		if !apiequality.Semantic.DeepEqual(before.Object[field], after.Object[field]) {
			return fmt.Errorf("the %s was %v and is %v", field, before.Object[field], after.Object[field])
		}
	}
	return nil
}
