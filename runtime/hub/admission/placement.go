package admission

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// placements refuses Placements that are longer, or cost more, than the
// scheduler accepts. Other mistakes are reported in the placement's conditions,
// as upstream does.
type placements struct {
	// expressions are separate from the scheduler's, which must not wait for
	// requests.
	expressions *scheduling.Expressions
}

var _ admission.ValidationInterface = &placements{}

func (*placements) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate checks a placement's size when its specification is new or changes,
// so that an existing one can still be labelled and deleted.
func (p *placements) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, clusterv1beta1.GroupVersion.Group, "placements") {
		return nil
	}
	var now, before clusterv1beta1.Placement
	if err := errors.Join(decode(a.GetObject(), &now), decode(a.GetOldObject(), &before)); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the Placement cannot be read: %v", err))
	}
	if now.DeletionTimestamp != nil || a.GetOperation() == admission.Update && apiequality.Semantic.DeepEqual(now.Spec, before.Spec) {
		return nil
	}
	if err := scheduling.CheckSize(&now.Spec, p.expressions); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
