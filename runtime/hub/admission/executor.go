package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// executors asks whether authors may have their works carried out as the service
// accounts that they name.
type executors struct {
	access
	// checkNil says that works without an executor need a right, too: they are
	// carried out with the rights of the agent.
	checkNil bool
}

// check asks for the verb execute-as on manifestworks, in the namespace of the
// object and by the name of the service account. field is where the executor is. The works of a replica set are
// made by the hub, so it is asked once, in the replica set's own namespace.
//
// It is for every change of a spec, not only of its executor as upstream: who may
// not act as a service account may not change what is done in its name either.
func (e *executors) check(ctx context.Context, a admission.Attributes, field string, executor *workv1.ManifestWorkExecutor) error {
	var sa workv1.ManifestWorkSubjectServiceAccount
	switch {
	case executor == nil && e.checkNil:
		sa.Name = work.AgentServiceAccount // of whatever namespace
	case executor == nil:
		return nil
	default:
		// An executor that stands for nobody would be denied whatever its works ask
		// for, and must be no way around the right.
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
	// Upstream's clients look for this code, and not for that of a missing right.
	return apierrors.NewBadRequest(fmt.Sprintf("user %s cannot manipulate the Manifestwork with executor %s/%s in namespace %s", a.GetUserInfo().GetName(), sa.Namespace, sa.Name, a.GetNamespace()))
}
