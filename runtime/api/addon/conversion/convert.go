// Package conversion converts add-ons between the two versions of their API,
// v1alpha1, which is stored, and v1beta1, which newer clients speak.
//
// It follows upstream's conversion, so that each client finds what it expects:
//
//   - supportedConfigs of a ClusterManagementAddOn are defaultConfigs in v1beta1,
//     where a reserved name stands for "no default";
//   - spec.installNamespace of a ManagedClusterAddOn is an annotation in v1beta1;
//   - status.registrations have their type in v1beta1, and by the signer's name in
//     v1alpha1; the driver for the hub's API is one for all of an add-on's
//     registrations in v1alpha1.
//
// Where upstream drops a field that v1beta1 does not have, an annotation carries
// it here. A field that is set to nothing, such as an empty list, is as good as
// one that is absent.
package conversion

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// Convert converts one object, in JSON, to another version of its API. It fails
// when the object is not JSON of its kind, when it is not an add-on, or when there is
// no such version. Lists are to be converted item by item.
func Convert(object []byte, apiVersion string) ([]byte, error) {
	head := &metav1.PartialObjectMetadata{}
	if err := kjson.Unmarshal(object, &head.TypeMeta); err != nil {
		return nil, fmt.Errorf("read the kind of the object to convert: %w", err)
	}
	if head.APIVersion == apiVersion {
		return object, nil
	}
	convert, ok := conversions[direction{head.Kind, head.APIVersion, apiVersion}]
	if !ok {
		return nil, fmt.Errorf("there is no conversion of %s %q to %q: the kinds are ClusterManagementAddOn and ManagedClusterAddOn, the versions %s and %s",
			head.APIVersion, head.Kind, apiVersion, v1alpha1.GroupVersion, v1beta1.GroupVersion)
	}
	converted, err := convert(object)
	if err != nil {
		// Its name, if that can be read at all.
		_ = kjson.Unmarshal(object, head)
		return nil, fmt.Errorf("convert the %s %s/%s from %s to %s: %w", head.Kind, head.Namespace, head.Name, head.APIVersion, apiVersion, err)
	}
	return converted, nil
}

// direction is a kind and the versions to convert from and to.
type direction struct{ kind, from, to string }

var conversions = map[direction]func([]byte) ([]byte, error){
	{"ClusterManagementAddOn", v1alpha1.GroupVersion.String(), v1beta1.GroupVersion.String()}: typed(ClusterManagementAddOnToV1beta1),
	{"ClusterManagementAddOn", v1beta1.GroupVersion.String(), v1alpha1.GroupVersion.String()}: typed(ClusterManagementAddOnToV1alpha1),
	{"ManagedClusterAddOn", v1alpha1.GroupVersion.String(), v1beta1.GroupVersion.String()}:    typed(ManagedClusterAddOnToV1beta1),
	{"ManagedClusterAddOn", v1beta1.GroupVersion.String(), v1alpha1.GroupVersion.String()}:    typed(ManagedClusterAddOnToV1alpha1),
}

// typed converts JSON by a function of types.
func typed[From, To any](convert func(*From) *To) func([]byte) ([]byte, error) {
	return func(object []byte) ([]byte, error) {
		in := new(From)
		// Case matters: the versions have fields that differ in nothing else.
		if err := kjson.Unmarshal(object, in); err != nil {
			return nil, err
		}
		return json.Marshal(convert(in))
	}
}

func typeMeta(version schema.GroupVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version.String(), Kind: kind}
}

// each maps a list; nothing stays nothing.
func each[From, To any](in []From, f func(From) To) []To {
	if len(in) == 0 {
		return nil
	}
	out := make([]To, len(in))
	for i := range in {
		out[i] = f(in[i])
	}
	return out
}
