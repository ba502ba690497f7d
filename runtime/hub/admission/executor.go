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

// executors checks whether authors may run their works as the service accounts
// that the works name.
type executors struct {
	access
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
func (e *executors) check(ctx context.Context, a admission.Attributes, field string, executor *workv1.ManifestWorkExecutor) error {
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
