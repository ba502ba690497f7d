package admission

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// placements refuses Placements that are longer, or cost more, than the
// scheduler accepts. Other mistakes are reported in the placement's conditions,
// as upstream does.
type placements struct {
	writes
	// expressions are separate from the scheduler's, which must not wait for
	// requests.
	expressions *scheduling.Expressions
}

// Validate checks a placement's size when its specification is new or changes,
// so that an existing one can still be labelled and deleted.
func (p placements) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, clusterv1beta1.GroupVersion.Group, "placements") {
		return nil
	}
	now, before, err := objects[clusterv1beta1.Placement](a)
	if err != nil {
		return err
	}
	if now.DeletionTimestamp != nil || a.GetOperation() == admission.Update && apiequality.Semantic.DeepEqual(now.Spec, before.Spec) {
		return nil
	}
	if err := scheduling.CheckSize(&now.Spec, p.expressions); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// placementDecisions allows only the hub's scheduler to write the decisions of
// a placement, unless the placement is annotated for another scheduler. A
// decision says where works go: a user who can write one chooses clusters for
// others.
type placementDecisions struct {
	writes
	*server
}

// Validate refuses writes that change which clusters a placement has chosen.
// Administrators (system:masters, which includes the hub's own controllers) may
// write them; the scheduler corrects the decision afterwards.
func (p placementDecisions) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r := a.GetResource()
	if r.Group != cluster.GroupName || r.Resource != "placementdecisions" || isHub(a.GetUserInfo()) {
		return nil
	}
	now, before, err := objects[clusterv1beta1.PlacementDecision](a)
	if err != nil {
		return err
	}
	if a.GetOperation() == admission.Update && saysTheSame(&now, &before) {
		return nil
	}
	for _, name := range []string{before.Labels[cluster.PlacementLabel], now.Labels[cluster.PlacementLabel]} {
		if name == "" {
			continue // it decides nothing
		}
		external, err := p.external(ctx, a.GetNamespace(), name)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("read the placement %s/%s: %w", a.GetNamespace(), name, err))
		}
		if !external {
			return forbidden(a, "the decisions of the placement %q are written by the hub's scheduler: to schedule it yourself, give it the annotation %s=true", name, cluster.SchedulingDisabledAnnotation)
		}
	}
	return nil
}

// saysTheSame reports whether two states of a decision choose the same clusters
// for the same placement and group.
func saysTheSame(a, b *clusterv1beta1.PlacementDecision) bool {
	for _, label := range []string{cluster.PlacementLabel, cluster.DecisionGroupIndexLabel, cluster.DecisionGroupNameLabel} {
		if a.Labels[label] != b.Labels[label] {
			return false
		}
	}
	return apiequality.Semantic.DeepEqual(a.Status, b.Status)
}

// external reports whether another scheduler decides for a placement. A
// placement that does not exist has no scheduler.
func (p placementDecisions) external(ctx context.Context, namespace, name string) (bool, error) {
	object, err := p.objects.Resource(clusterv1beta1.GroupVersion.WithResource("placements")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return object.GetAnnotations()[cluster.SchedulingDisabledAnnotation] == "true", nil
}
