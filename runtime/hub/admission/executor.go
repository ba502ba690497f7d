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
// object and by the name of the service account. The works of a replica set are
// made by the hub, so it is asked once, in the replica set's own namespace.
//
// It is for every change of a spec, not only of its executor as upstream: who may
// not act as a service account may not change what is done in its name either.
func (e *executors) check(ctx context.Context, a admission.Attributes, executor *workv1.ManifestWorkExecutor) error {
	var sa workv1.ManifestWorkSubjectServiceAccount
	switch {
	case executor == nil && e.checkNil:
		sa.Name = work.AgentServiceAccount // of whatever namespace
	case executor == nil || executor.Subject.ServiceAccount == nil:
		return nil
	default:
		sa = *executor.Subject.ServiceAccount
	}
	if e.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{
		Verb: "execute-as", APIGroup: work.GroupName, Resource: "manifestworks", Namespace: a.GetNamespace(),
		Name: "system:serviceaccount:" + sa.Namespace + ":" + sa.Name,
	}) {
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
		fmt.Errorf("user %s cannot manipulate the Manifestwork with executor %s/%s in namespace %s", a.GetUserInfo().GetName(), sa.Namespace, sa.Name, a.GetNamespace()))
}
