package addon_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
)

// As upstream, an add-on from a template that says it manages itself does so with an
// empty annotation. Other add-ons' annotations are their managers'.
func TestTheLifecycleOfATemplateAddOn(t *testing.T) {
	for name, c := range map[string]struct {
		template bool
		value    string
		want     string
		writes   int64
	}{
		"self":                       {template: true, value: "self", want: "", writes: 1},
		"self, with its own manager": {value: "self", want: "self"},
		"the hub":                    {template: true, value: "addon-manager", want: "addon-manager"},
		"anything else":              {template: true, value: "Self", want: "Self"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "")
			a := &addonv1alpha1.ClusterManagementAddOn{}
			a.Name, a.Annotations = f.name, map[string]string{lifecycle: c.value, "example.org/other": "x"}
			if c.template {
				a.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{{ConfigGroupResource: addonv1alpha1.ConfigGroupResource{
					Group: "addon.open-cluster-management.io", Resource: "addontemplates",
				}}}
			}
			f.Make(a)
			counting, writes := env.Counting(t)
			manager := addoncontrollers.NewLifecycle(counting)
			n := writes.During(func() { f.Reconcile(manager, client.ObjectKeyFromObject(a)) })
			got, set := f.definition().Annotations[lifecycle]
			if n != c.writes || !set || got != c.want || f.definition().Annotations["example.org/other"] != "x" {
				t.Errorf("%d writes, and the annotation is %q (%v), want %d and %q", n, got, set, c.writes, c.want)
			}
			if n := writes.During(func() { f.Reconcile(manager, types.NamespacedName{Name: f.name}) }); n != 0 {
				t.Errorf("%d writes although nothing has changed", n)
			}
		})
	}
}
