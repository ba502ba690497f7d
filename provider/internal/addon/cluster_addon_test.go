package addon

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// A cluster has the present configuration when the hub reports just that: its
// conditions may be those of a former one.
func TestWhenAClusterHasItsConfiguration(t *testing.T) {
	settings := v1alpha1.AddOnConfig{ConfigGroupResource: ownKind(addon.DeploymentConfigResource), ConfigReferent: v1alpha1.ConfigReferent{Namespace: "n", Name: "settings"}}
	reference := func(desired, applied string) v1alpha1.ConfigReference {
		hash := func(text string) *v1alpha1.ConfigSpecHash {
			return &v1alpha1.ConfigSpecHash{ConfigReferent: settings.ConfigReferent, SpecHash: text}
		}
		return v1alpha1.ConfigReference{ConfigGroupResource: settings.ConfigGroupResource, DesiredConfig: hash(desired), LastAppliedConfig: hash(applied)}
	}
	done := []metav1.Condition{
		{Type: addon.ConditionConfigured, Status: metav1.ConditionTrue, Reason: addon.ReasonConfigurationsConfigured},
		{Type: addon.ConditionProgressing, Status: metav1.ConditionFalse, Reason: addon.ReasonCompleted, Message: addon.MessageCompleted},
	}
	with := func(kind string, status metav1.ConditionStatus, reason string) []metav1.Condition {
		var out []metav1.Condition
		for _, c := range done {
			if c.Type == kind {
				c.Status, c.Reason = status, reason
			}
			out = append(out, c)
		}
		return out
	}
	for name, x := range map[string]struct {
		configs    []v1alpha1.AddOnConfig
		references []v1alpha1.ConfigReference
		conditions []metav1.Condition
		hashes     hashesOf
		want       string
	}{
		"no configuration":                   {conditions: done},
		"all is there":                       {[]v1alpha1.AddOnConfig{settings}, []v1alpha1.ConfigReference{reference("a", "a")}, done, hashesOf{settings: "a"}, ""},
		"inherited":                          {nil, []v1alpha1.ConfigReference{reference("a", "a")}, done, nil, ""},
		"nothing reported":                   {want: "Configured is not reported yet"},
		"conditions of a former one":         {[]v1alpha1.AddOnConfig{settings}, nil, done, nil, "the hub has not reported on addondeploymentconfigs n/settings yet"},
		"the configuration has changed":      {[]v1alpha1.AddOnConfig{settings}, []v1alpha1.ConfigReference{reference("a", "a")}, done, hashesOf{settings: "b"}, "the last change of addondeploymentconfigs n/settings has not come to the cluster's turn"},
		"it does not exist":                  {[]v1alpha1.AddOnConfig{settings}, []v1alpha1.ConfigReference{reference("", "")}, done, nil, "addondeploymentconfigs n/settings does not exist"},
		"it is not applied":                  {[]v1alpha1.AddOnConfig{settings}, []v1alpha1.ConfigReference{reference("b", "a")}, done, hashesOf{settings: "b"}, "the cluster does not have addondeploymentconfigs n/settings yet"},
		"it waits for its turn":              {conditions: with(addon.ConditionConfigured, metav1.ConditionFalse, addon.ReasonConfigurationsNotConfigured), want: "Configured is False (ConfigurationsNotConfigured)"},
		"false is not enough":                {conditions: with(addon.ConditionProgressing, metav1.ConditionFalse, addon.ReasonConfigurationUnsupported), want: "Progressing is False (ConfigurationUnsupported)"},
		"a reference of an upstream manager": {nil, []v1alpha1.ConfigReference{{ConfigGroupResource: settings.ConfigGroupResource}}, done, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := &v1alpha1.ManagedClusterAddOn{Spec: v1alpha1.ManagedClusterAddOnSpec{Configs: x.configs}}
			object.Status.ConfigReferences, object.Status.Conditions = x.references, x.conditions
			wait := &waitModel{RolledOut: types.BoolValue(true)}
			got := strings.Join(wait.missingIn(object, x.hashes), "\n")
			if (x.want == "") != (got == "") || !strings.Contains(got, x.want) {
				t.Errorf("missing %q, want %q", got, x.want)
			}
		})
	}
}

// What the hub has installed by itself is no user's, even though every add-on gets its
// owner reference.
func TestWhoHasMadeAnAddOn(t *testing.T) {
	written := func(manager, fields string) metav1.ManagedFieldsEntry {
		entry := metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: &metav1.FieldsV1{}}
		if err := entry.FieldsV1.UnmarshalJSON([]byte(fields)); err != nil {
			t.Fatal(err)
		}
		return entry
	}
	const owner, spec = `"f:metadata":{"f:ownerReferences":{}}`, `"f:spec":{"f:configs":{}}`
	for name, x := range map[string]struct {
		owned  bool
		fields []metav1.ManagedFieldsEntry
		want   bool
	}{
		"by the hub":                       {true, []metav1.ManagedFieldsEntry{written("muster", "{"+owner+","+spec+"}")}, true},
		"by a person":                      {false, []metav1.ManagedFieldsEntry{written("kubectl", "{"+spec+"}")}, false},
		"by a person, owned by the hub":    {true, []metav1.ManagedFieldsEntry{written("kubectl", "{"+spec+"}"), written("muster", "{"+owner+"}")}, false},
		"by the hub, changed by a person":  {true, []metav1.ManagedFieldsEntry{written("muster", "{"+owner+","+spec+"}"), written("kubectl", "{"+spec+"}")}, false},
		"by the hub, labelled by a person": {true, []metav1.ManagedFieldsEntry{written("muster", "{"+owner+","+spec+"}"), written("kubectl", `{"f:metadata":{"f:labels":{}}}`)}, true},
	} {
		object := &v1alpha1.ManagedClusterAddOn{}
		if object.ManagedFields = x.fields; x.owned {
			object.OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterManagementAddOn", Name: "a"}}
		}
		if got := madeByHub(object); got != x.want {
			t.Errorf("%s: made by the hub: %v", name, got)
		}
	}
}
