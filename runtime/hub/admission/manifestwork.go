package admission

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// manifestWorks checks ManifestWorks.
type manifestWorks struct {
	executors
	// limit is the greatest total size of the manifests, in bytes.
	limit int
}

var _ admission.ValidationInterface = &manifestWorks{}

func (*manifestWorks) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate checks a work's manifests, and that its author may run it as the
// service account that it names.
func (p *manifestWorks) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, work.GroupName, "manifestworks") {
		return nil
	}
	var now, before workv1.ManifestWork
	if err := errors.Join(decode(a.GetObject(), &now), decode(a.GetOldObject(), &before)); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the ManifestWork cannot be read: %v", err))
	}
	// A write to a deleted work only changes finalizers, whatever its manifests
	// are.
	if a.GetOperation() == admission.Create || now.DeletionTimestamp == nil && !apiequality.Semantic.DeepEqual(now.Spec.Workload, before.Spec.Workload) {
		if err := checkManifests(now.Spec.Workload.Manifests, p.limit); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		warnOfSize(ctx, "spec.workload.manifests", now.Spec.Workload.Manifests)
	}
	if err := checkOptions("spec.manifestConfigs", now.Spec.ManifestConfigs, before.Spec.ManifestConfigs); err != nil && now.DeletionTimestamp == nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if a.GetOperation() == admission.Update && apiequality.Semantic.DeepEqual(now.Spec, before.Spec) {
		return nil
	}
	return p.check(ctx, a, "spec.executor", now.Spec.Executor)
}

// checkOptions checks the options of a work's manifests when they are new.
// Stored ones stay as they are.
func checkOptions(field string, now, before []workv1.ManifestConfigOption) error {
	if apiequality.Semantic.DeepEqual(now, before) {
		return nil
	}
	return workcheck.Options(field, now)
}

// warnOfSize warns the author of manifests when their status will not fit into
// the store beside them. They are admitted, because they can be applied.
func warnOfSize(ctx context.Context, field string, manifests []workv1.Manifest) {
	size := len(manifests) * work.StatusEntrySize
	for _, m := range manifests {
		size += len(m.Raw)
	}
	if size > work.MaxStoredSize {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: there are %d manifests, whose status of about %d KiB in all will not be reported in full: split them into several works", field, len(manifests), len(manifests)*work.StatusEntrySize>>10))
	}
}

func checkManifests(manifests []workv1.Manifest, limit int) error {
	if len(manifests) == 0 {
		return errors.New("manifests should not be empty")
	}
	size := 0
	seen := map[string]bool{}
	for i, m := range manifests {
		size += m.Size()
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(m.Raw); err != nil {
			return fmt.Errorf("spec.workload.manifests[%d] is not a Kubernetes object: %w", i, err)
		}
		switch {
		case object.GetGenerateName() != "":
			return fmt.Errorf("spec.workload.manifests[%d] (%s): metadata.generateName is %q: the agent applies manifests again and again, so give a metadata.name instead", i, object.GetKind(), object.GetGenerateName())
		case object.GetName() == "":
			return fmt.Errorf("spec.workload.manifests[%d] (%s): metadata.name is missing", i, object.GetKind())
		}
		key := object.GetAPIVersion() + "|" + object.GetKind() + "|" + object.GetNamespace() + "|" + object.GetName()
		if seen[key] {
			return fmt.Errorf("duplicate manifest for resource %s/%s with resource type %s", object.GetNamespace(), object.GetName(), object.GroupVersionKind())
		}
		seen[key] = true
	}
	if size > limit {
		return fmt.Errorf("the size of manifests is %d bytes which exceeds the %d limit", size, limit)
	}
	return nil
}
