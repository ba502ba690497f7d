package admission

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// manifestWorkReplicaSets checks ManifestWorkReplicaSets. Their executors are
// checked like those of works. Upstream does not check them, so there a replica
// set is a way around the check.
type manifestWorkReplicaSets struct {
	executors
	// enabled is whether the controller for replica sets runs.
	enabled bool
	// limit is the greatest total size of a template's manifests, in bytes.
	limit int
}

var _ admission.ValidationInterface = &manifestWorkReplicaSets{}

func (*manifestWorkReplicaSets) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update || op == admission.Delete
}

// Validate checks that the controller for replica sets runs, the manifests of
// the template, and that the author may run them as the template's executor.
func (p *manifestWorkReplicaSets) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, work.GroupName, "manifestworkreplicasets") {
		return nil
	}
	var now, before workv1alpha1.ManifestWorkReplicaSet
	if err := errors.Join(decode(a.GetObject(), &now), decode(a.GetOldObject(), &before)); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the ManifestWorkReplicaSet cannot be read: %v", err))
	}
	if now.DeletionTimestamp != nil {
		return nil // only finalizers change; with nobody to take them off, they can be by hand
	}
	if !p.enabled {
		return apierrors.NewBadRequest(work.RefusedReplicaSet)
	}
	was, is := before.Spec.ManifestWorkTemplate.Workload, now.Spec.ManifestWorkTemplate.Workload
	if a.GetOperation() == admission.Create || a.GetOperation() == admission.Update && !apiequality.Semantic.DeepEqual(was, is) {
		if err := checkManifests(is.Manifests, p.limit); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		warnOfSize(ctx, "spec.manifestWorkTemplate.workload.manifests", is.Manifests)
	}
	if err := checkOptions("spec.manifestWorkTemplate.manifestConfigs", now.Spec.ManifestWorkTemplate.ManifestConfigs, before.Spec.ManifestWorkTemplate.ManifestConfigs); err != nil && a.GetOperation() != admission.Delete {
		return apierrors.NewBadRequest(err.Error())
	}
	if a.GetOperation() == admission.Delete || a.GetOperation() == admission.Update && apiequality.Semantic.DeepEqual(now.Spec, before.Spec) {
		return nil
	}
	return p.check(ctx, a, "spec.manifestWorkTemplate.executor", now.Spec.ManifestWorkTemplate.Executor)
}
