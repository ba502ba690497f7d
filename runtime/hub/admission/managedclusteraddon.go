package admission

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// managedClusterAddOns checks the annotations of ManagedClusterAddOns in
// v1beta1 that stand for fields of v1alpha1. The rules that the definition has
// for a field apply to its annotation, too.
type managedClusterAddOns struct{}

var (
	_ admission.MutationInterface   = managedClusterAddOns{}
	_ admission.ValidationInterface = managedClusterAddOns{}
)

func (managedClusterAddOns) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit restores the annotation with older fields: these are parts of the
// status, which a write of the object itself does not change.
func (managedClusterAddOns) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, old, err := addOnMetadata(a)
	if object == nil || err != nil {
		return err
	}
	annotations := object.GetAnnotations()
	have, found := annotations[addon.OlderFieldsAnnotation]
	want, wanted := "", false
	if old != nil {
		want, wanted = old.GetAnnotations()[addon.OlderFieldsAnnotation]
	}
	switch {
	case found == wanted && have == want:
		return nil
	case !wanted:
		delete(annotations, addon.OlderFieldsAnnotation)
	case annotations == nil:
		annotations = map[string]string{addon.OlderFieldsAnnotation: want}
	default:
		annotations[addon.OlderFieldsAnnotation] = want
	}
	object.SetAnnotations(annotations)
	return nil
}

// Validate refuses a new install namespace that the field would not accept. A
// stored one may stay, and an empty one is the default.
func (managedClusterAddOns) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, old, err := addOnMetadata(a)
	if object == nil || err != nil {
		return err
	}
	namespace := object.GetAnnotations()[addon.InstallNamespaceAnnotation]
	if namespace == "" || old != nil && old.GetAnnotations()[addon.InstallNamespaceAnnotation] == namespace {
		return nil
	}
	if bad := validation.IsDNS1123Label(namespace); len(bad) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("the annotation %s is %q, which is not the name of a namespace: %s", addon.InstallNamespaceAnnotation, namespace, strings.Join(bad, "; ")))
	}
	return nil
}

// addOnMetadata is the metadata of a ManagedClusterAddOn in v1beta1 that a
// request writes, and the metadata of the stored object, if there is one. For
// any other request it is nil.
func addOnMetadata(a admission.Attributes) (object, old metav1.Object, err error) {
	if !concerns(a, addon.GroupName, "managedclusteraddons") || a.GetKind().Version != addonv1beta1.GroupVersion.Version {
		return nil, nil, nil
	}
	if object, err = meta.Accessor(a.GetObject()); err != nil {
		return nil, nil, err
	}
	if a.GetOldObject() != nil {
		old, err = meta.Accessor(a.GetOldObject())
	}
	return object, old, err
}
