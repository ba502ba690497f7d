package admission

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// workOverrides checks WorkOverrides, and notes the digest of what they say.
type workOverrides struct{ writes }

// Admit notes the digest, whatever the author has written there.
func (workOverrides) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "workoverrides") {
		return nil
	}
	object, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("expected a custom resource, got %T", a.GetObject())
	}
	now, _, err := objects[v1alpha1.WorkOverride](a)
	if err != nil {
		return err
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[muster.OverrideDigestAnnotation] = override.Digest(now.Spec)
	object.SetAnnotations(annotations)
	return nil
}

// Validate checks all that does not depend on a replica set or a cluster.
func (workOverrides) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "workoverrides") {
		return nil
	}
	now, before, err := objects[v1alpha1.WorkOverride](a)
	if err != nil {
		return err
	}
	if a.GetOperation() == admission.Update && override.Digest(now.Spec) == override.Digest(before.Spec) {
		return nil // what is stored may keep its labels, whatever later versions refuse
	}
	if _, err := override.Read(now.Spec); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// addOnTemplates checks the overrides of AddOnTemplates.
type addOnTemplates struct {
	writes
	// enabled is whether templates may have an override, and limit how large a manifest may
	// be, in bytes.
	enabled bool
	limit   int
}

// Validate checks the annotation with the override.
func (p addOnTemplates) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, addon.GroupName, addon.TemplateResource) {
		return nil
	}
	now, before, err := objects[addonv1alpha1.AddOnTemplate](a)
	if err != nil {
		return err
	}
	given, ok := now.Annotations[muster.OverrideAnnotation]
	same := given == before.Annotations[muster.OverrideAnnotation] &&
		apiequality.Semantic.DeepEqual(now.Spec, before.Spec)
	if !ok || a.GetOperation() == admission.Update && same {
		return nil // what is stored may keep its labels, whatever later versions refuse
	}
	if !p.enabled {
		return apierrors.NewBadRequest(noOverrides)
	}
	if _, err := override.OfAddOn(&now, p.limit); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

const noOverrides = "the annotation " + muster.OverrideAnnotation + ": this hub has no overrides, as its feature " +
	"gate WorkOverride is off"

// checkOverride checks the annotation that names the WorkOverride of a replica set. same is
// whether the set's spec and the annotation are as before.
//
// All who may write WorkOverrides in the namespace can change what an override says. So where
// more than the right to write the set is asked of its authors, as for an executor or for a
// gate, the set has to name what it is to say, by its digest.
func (p manifestWorkReplicaSets) checkOverride(now, before *workv1alpha1.ManifestWorkReplicaSet, same bool) error {
	_, gated := now.Annotations[muster.RolloutGatesAnnotation]
	if _, was := before.Annotations[muster.RolloutGatesAnnotation]; same && gated == was {
		return nil
	}
	ref, err := override.ReferenceOf(now.Annotations)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if ref.None() {
		return nil
	}
	if !p.overrides {
		return apierrors.NewBadRequest(noOverrides)
	}
	if ref.Inline != nil {
		read, err := override.Read(*ref.Inline)
		if err == nil {
			_, err = read.Bind(now.Spec.ManifestWorkTemplate, p.limit)
		}
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("the annotation %s: %v", muster.OverrideAnnotation, err))
		}
		return nil
	}
	why := ""
	switch {
	case ref.Digest != "":
	case now.Spec.ManifestWorkTemplate.Executor != nil || p.checkNil:
		why = "its works are carried out in the name of an executor"
	case gated:
		why = "its rollout has gates"
	}
	if why != "" {
		return apierrors.NewBadRequest(
			fmt.Sprintf("the annotation %s names the WorkOverride %s alone, which others may change, "+
				"and %s: write %s@ and the digest in the WorkOverride's annotation %s, or its spec itself as JSON",
				muster.OverrideAnnotation, ref.Name, why,
				ref.Name, muster.OverrideDigestAnnotation),
		)
	}
	return nil
}
