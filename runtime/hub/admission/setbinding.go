package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// setBindings checks ManagedClusterSetBindings.
type setBindings struct{ access }

var _ admission.ValidationInterface = &setBindings{}

func (*setBindings) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate checks that a binding has the name of its set, and that its creator
// may bind the set.
func (p *setBindings) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, cluster.GroupName, "managedclustersetbindings") {
		return nil
	}
	var binding clusterv1beta2.ManagedClusterSetBinding
	if err := decode(a.GetObject(), &binding); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the ManagedClusterSetBinding cannot be read: %v", err))
	}
	set := binding.Spec.ClusterSet
	if binding.Name != set {
		return apierrors.NewBadRequest("The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet")
	}
	if a.GetOperation() == admission.Create && !p.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{
		Verb: "create", APIGroup: cluster.GroupName, Resource: "managedclustersets", Subresource: "bind", Name: set,
	}) {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), binding.Name,
			fmt.Errorf("user %q "+cluster.RefusedSetBinding+" %q", a.GetUserInfo().GetName(), set))
	}
	return nil
}
