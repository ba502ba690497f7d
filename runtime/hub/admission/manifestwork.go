package admission

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// manifestWorks checks ManifestWorks.
type manifestWorks struct {
	writes
	executors
	// limit is the greatest total size of the manifests, in bytes.
	limit int
}

// Validate checks a work's manifests, and that its author may run it as the
// service account that it names.
func (p manifestWorks) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, work.GroupName, "manifestworks") {
		return nil
	}
	now, before, err := objects[workv1.ManifestWork](a)
	if err != nil {
		return err
	}
	// A write to a deleted work only changes finalizers, whatever its manifests
	// are.
	if a.GetOperation() == admission.Create || now.DeletionTimestamp == nil && !apiequality.Semantic.DeepEqual(now.Spec.Workload, before.Spec.Workload) {
		if err := workcheck.Manifests(now.Spec.Workload.Manifests, p.limit); err != nil {
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

// manifestWorkReplicaSets checks ManifestWorkReplicaSets. Their executors are
// checked like those of works. Upstream does not check them, so there a replica
// set is a way around the check.
type manifestWorkReplicaSets struct {
	executors
	// enabled is whether the controller for replica sets runs.
	enabled bool
	// overrides is whether its works may differ by a WorkOverride.
	overrides bool
	// limit is the greatest total size of a template's manifests, in bytes.
	limit int
}

func (manifestWorkReplicaSets) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update || op == admission.Delete
}

// Validate checks that the controller for replica sets runs, the manifests of
// the template, and that the author may run them as the template's executor.
func (p manifestWorkReplicaSets) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, work.GroupName, "manifestworkreplicasets") {
		return nil
	}
	now, before, err := objects[workv1alpha1.ManifestWorkReplicaSet](a)
	if err != nil {
		return err
	}
	if now.DeletionTimestamp != nil {
		return nil // only finalizers change; with nobody to take them off, they can be by hand
	}
	if !p.enabled {
		return apierrors.NewBadRequest(work.RefusedReplicaSet)
	}
	was, is := before.Spec.ManifestWorkTemplate.Workload, now.Spec.ManifestWorkTemplate.Workload
	if a.GetOperation() == admission.Create || a.GetOperation() == admission.Update && !apiequality.Semantic.DeepEqual(was, is) {
		if err := workcheck.Manifests(is.Manifests, p.limit); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		warnOfSize(ctx, "spec.manifestWorkTemplate.workload.manifests", is.Manifests)
	}
	if err := checkOptions("spec.manifestWorkTemplate.manifestConfigs", now.Spec.ManifestWorkTemplate.ManifestConfigs, before.Spec.ManifestWorkTemplate.ManifestConfigs); err != nil && a.GetOperation() != admission.Delete {
		return apierrors.NewBadRequest(err.Error())
	}
	if a.GetOperation() == admission.Delete {
		return nil
	}
	same := apiequality.Semantic.DeepEqual(now.Spec, before.Spec) &&
		now.Annotations[muster.OverrideAnnotation] == before.Annotations[muster.OverrideAnnotation]
	if err := p.checkOverride(&now, &before, same); err != nil {
		return err
	}
	if a.GetOperation() == admission.Update && same {
		return nil
	}
	return p.check(ctx, a, "spec.manifestWorkTemplate.executor", now.Spec.ManifestWorkTemplate.Executor)
}

// executors checks whether authors may run their works as the service accounts
// that the works name.
type executors struct {
	*server
	// checkNil is whether works without an executor need a right, too: they run
	// with the rights of the agent.
	checkNil bool
}

// check asks for the verb execute-as on manifestworks, in the namespace of the
// object and by the name of the service account. field is the path of the
// executor. The hub makes the works of a replica set, so for these the right is
// checked once, in the namespace of the replica set.
//
// Every change of a spec is checked. Upstream only checks changes of the
// executor, but a user who may not act as a service account may not change what
// is done in its name either.
func (e executors) check(ctx context.Context, a admission.Attributes, field string, executor *workv1.ManifestWorkExecutor) error {
	var sa workv1.ManifestWorkSubjectServiceAccount
	switch {
	case executor == nil && e.checkNil:
		sa.Name = work.AgentServiceAccount // of whatever namespace
	case executor == nil:
		return nil
	default:
		// An executor that is no service account would be denied everything,
		// and must not be a way around the right.
		if _, err := executor.UserName(); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("%s: %v: name a service account of the managed cluster in %s.subject, with the type ServiceAccount, or leave %s out to use the agent's own rights", field, err, field, field))
		}
		sa = *executor.Subject.ServiceAccount
	}
	if e.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{
		Verb: "execute-as", APIGroup: work.GroupName, Resource: "manifestworks", Namespace: a.GetNamespace(), Name: sa.UserName(),
	}) {
		return nil
	}
	// Upstream's clients expect this code instead of Forbidden.
	return apierrors.NewBadRequest(fmt.Sprintf("user %s "+work.RefusedExecutor+" %s/%s in namespace %s",
		a.GetUserInfo().GetName(), sa.Namespace, sa.Name, a.GetNamespace()))
}
