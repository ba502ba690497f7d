package conversion

import (
	"encoding/json"
	"maps"
	"reflect"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// olderFields are the fields of v1alpha1 that v1beta1 has no place for. They
// travel in an annotation, where upstream's conversion drops them.
type olderFields struct {
	// AddOnConfiguration is spec.addOnConfiguration of a ClusterManagementAddOn, or
	// status.addOnConfiguration of a ManagedClusterAddOn.
	AddOnConfiguration v1alpha1.ConfigCoordinates `json:"addOnConfiguration,omitzero"`
	// ConfigReferences are names in status.configReferences that do not follow from
	// the desired configuration.
	ConfigReferences []olderReference `json:"configReferences,omitempty"`
	// OrganizationUnits are those of registrations for the hub's API.
	OrganizationUnits []olderSubject `json:"organizationUnits,omitempty"`
	// KubeClientDriver is that of an add-on without a registration for the hub's API.
	KubeClientDriver string `json:"kubeClientDriver,omitempty"`
}

// olderReference is the name of one configuration. Index, kind and desired
// configuration find the entry that it belongs to, when that is still there.
type olderReference struct {
	Index    int                          `json:"index"`
	Kind     v1alpha1.ConfigGroupResource `json:"kind"`
	Desired  *v1alpha1.ConfigReferent     `json:"desired,omitempty"`
	Referent v1alpha1.ConfigReferent      `json:"referent"`
}

// olderSubject are the organizational units of one registration. Index and user
// find it.
type olderSubject struct {
	Index int      `json:"index"`
	User  string   `json:"user,omitempty"`
	Units []string `json:"units"`
}

// olderStatus are the older fields of a status.
func olderStatus(in *v1alpha1.ManagedClusterAddOnStatus) olderFields {
	out := olderFields{AddOnConfiguration: in.AddOnConfiguration}
	for i, r := range in.ConfigReferences {
		if r.ConfigReferent != referentOf(r.DesiredConfig) {
			out.ConfigReferences = append(out.ConfigReferences, olderReference{
				Index: i, Kind: r.ConfigGroupResource, Desired: desiredReferent(r.DesiredConfig), Referent: r.ConfigReferent,
			})
		}
	}
	usesHub := false
	for i, r := range in.Registrations {
		if r.SignerName != addon.KubeClientSigner {
			continue
		}
		usesHub = true
		if len(r.Subject.OrganizationUnits) > 0 {
			out.OrganizationUnits = append(out.OrganizationUnits, olderSubject{Index: i, User: r.Subject.User, Units: r.Subject.OrganizationUnits})
		}
	}
	if !usesHub {
		out.KubeClientDriver = in.KubeClientDriver
	}
	return out
}

// restore puts the fields back. What a client of v1beta1 has changed or removed
// in the meantime is left as that client wants it.
func (f olderFields) restore(to *v1alpha1.ManagedClusterAddOnStatus) {
	to.AddOnConfiguration = f.AddOnConfiguration
	for _, r := range f.ConfigReferences {
		if r.Index < 0 || r.Index >= len(to.ConfigReferences) {
			continue
		}
		at := &to.ConfigReferences[r.Index]
		if at.ConfigGroupResource == r.Kind && reflect.DeepEqual(desiredReferent(at.DesiredConfig), r.Desired) {
			at.ConfigReferent = r.Referent
		}
	}
	usesHub := false
	for _, r := range to.Registrations {
		usesHub = usesHub || r.SignerName == addon.KubeClientSigner
	}
	if !usesHub {
		to.KubeClientDriver = f.KubeClientDriver
	}
	for _, s := range f.OrganizationUnits {
		if s.Index < 0 || s.Index >= len(to.Registrations) {
			continue
		}
		if at := &to.Registrations[s.Index]; at.SignerName == addon.KubeClientSigner && at.Subject.User == s.User {
			at.Subject.OrganizationUnits = s.Units
		}
	}
}

func desiredReferent(c *v1alpha1.ConfigSpecHash) *v1alpha1.ConfigReferent {
	if c == nil {
		return nil
	}
	return &c.ConfigReferent
}

// withOlderFields returns the annotations of the object in v1beta1.
func withOlderFields(annotations map[string]string, f olderFields) map[string]string {
	if reflect.ValueOf(f).IsZero() {
		return without(annotations, addon.OlderFieldsAnnotation)
	}
	data, err := json.Marshal(f)
	if err != nil { // there is nothing in it that JSON cannot say
		panic(err)
	}
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	out[addon.OlderFieldsAnnotation] = string(data)
	return out
}

// takeOlderFields returns what the annotations of an object in v1beta1 carry, and
// the annotations without it. What cannot be read is nothing.
func takeOlderFields(annotations map[string]string) (olderFields, map[string]string) {
	value, ok := annotations[addon.OlderFieldsAnnotation]
	if !ok {
		return olderFields{}, annotations
	}
	f := olderFields{}
	if err := json.Unmarshal([]byte(value), &f); err != nil {
		f = olderFields{}
	}
	return f, without(annotations, addon.OlderFieldsAnnotation)
}

// without is a copy of the annotations without one of them, and none at all
// rather than an empty map.
func without(annotations map[string]string, key string) map[string]string {
	if _, ok := annotations[key]; !ok {
		return annotations
	}
	if len(annotations) == 1 {
		return nil
	}
	out := maps.Clone(annotations)
	delete(out, key)
	return out
}
