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

// managedClusterAddOns looks after the annotations that stand for fields of
// v1alpha1 in ManagedClusterAddOns of v1beta1: what the definition says of a
// field holds for its annotation, too.
type managedClusterAddOns struct{}

var (
	_ admission.MutationInterface   = managedClusterAddOns{}
	_ admission.ValidationInterface = managedClusterAddOns{}
)

func (managedClusterAddOns) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit keeps the annotation with older fields as it is: these are parts of the
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

// Validate refuses a new install namespace that the field would not take. What is
// stored already may stay, and no value at all is the default.
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

// addOnMetadata is the metadata of a ManagedClusterAddOn of v1beta1 that a request
// writes, and that of the stored object, if there is one. Of any other request it
// is nil.
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
