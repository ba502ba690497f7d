package restmapper_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
)

// The table must agree with what the servers serve.
func TestEveryKindOfTheWireIsMappedAsItIsServed(t *testing.T) {
	mapper := restmapper.Static()
	hub, err := crds.Hub()
	if err != nil {
		t.Fatal(err)
	}
	managed, err := crds.ManagedCluster()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range append(hub, managed...) {
		mapped := false
		for _, v := range crd.Spec.Versions {
			got, err := mapper.RESTMapping(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}, v.Name)
			if meta.IsNoMatchError(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			mapped = true
			if got.Resource.Resource != crd.Spec.Names.Plural {
				t.Errorf("%s: resource %q, served as %q", crd.Name, got.Resource.Resource, crd.Spec.Names.Plural)
			}
			if namespaced := got.Scope.Name() == meta.RESTScopeNameNamespace; namespaced != (crd.Spec.Scope == "Namespaced") {
				t.Errorf("%s: scope %s, served as %s", crd.Name, got.Scope.Name(), crd.Spec.Scope)
			}
		}
		if !mapped {
			t.Errorf("%s: in no version", crd.Name)
		}
	}
}
