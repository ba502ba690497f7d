package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// managedClusterAddOns checks the annotations of ManagedClusterAddOns in
// v1beta1 that stand for fields of v1alpha1. The rules that the definition has
// for a field apply to its annotation, too.
type managedClusterAddOns struct{ writes }

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

// hostings check who has an add-on hosted in another cluster. The hub brings works into
// the namespace of that cluster, so who asks for it has to be allowed to do so, too:
// otherwise the administrator of one cluster could write into another one. What a
// ManagedCluster is annotated with, its add-ons get.
type hostings struct {
	writes
	*server
}

// sameHosting reports whether a write leaves all that decides about a hosted add-on: its
// configuration, and the annotations for add-ons, which a ManagedCluster hands on to its
// add-ons. Add-ons are compared in the version that is stored, as the other one has fields
// of it in annotations.
func sameHosting(before, now *unstructured.Unstructured, ofCluster bool) (bool, error) {
	var specs [2]any
	var annotations [2]map[string]string
	for i, o := range []*unstructured.Unstructured{before, now} {
		if !ofCluster {
			var err error
			if o, err = stored(o); err != nil {
				return false, err
			}
			specs[i] = o.Object["spec"]
		}
		annotations[i] = map[string]string{}
		for k, v := range o.GetAnnotations() {
			if strings.HasPrefix(k, addon.AnnotationPrefix) {
				annotations[i][k] = v
			}
		}
	}
	return maps.Equal(annotations[0], annotations[1]) && apiequality.Semantic.DeepEqual(specs[0], specs[1]), nil
}

// stored is a ManagedClusterAddOn in the version that is stored.
func stored(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(o.Object)
	if err == nil && o.GetAPIVersion() != addonv1alpha1.GroupVersion.String() {
		raw, err = conversion.Convert(raw, addonv1alpha1.GroupVersion.String())
	}
	out := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(raw, &out.Object)
	}
	if err != nil {
		return nil, fmt.Errorf("the ManagedClusterAddOn %s/%s cannot be read: %w", o.GetNamespace(), o.GetName(), err)
	}
	return out, nil
}

// Validate refuses a hosting cluster in which the user may not create works. Who may not
// can't change, either, how an add-on is configured that is hosted there.
func (p hostings) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	ofCluster := concerns(a, cluster.GroupName, "managedclusters")
	if !ofCluster && !concerns(a, addon.GroupName, "managedclusteraddons") {
		return nil
	}
	now, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	host := now.GetAnnotations()[addon.HostingClusterAnnotation]
	if host == "" {
		return nil
	}
	if before, had := a.GetOldObject().(*unstructured.Unstructured); had {
		same, err := sameHosting(before, now, ofCluster)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if same {
			return nil
		}
	}
	create := authorizer.AttributesRecord{Verb: "create", APIGroup: work.GroupName, Resource: "manifestworks", Namespace: host}
	if p.may(ctx, a.GetUserInfo(), create) {
		return nil
	}
	return forbidden(a, "the annotation %s names %q: user %q may not create manifestworks in the namespace of that cluster, where the add-on's works would be; leave the annotation out, or ask an administrator of the hosting cluster",
		addon.HostingClusterAnnotation, host, a.GetUserInfo().GetName())
}
