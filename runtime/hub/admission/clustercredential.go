package admission

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// maxIssued is how long the certificate or the token of an answer may be, in bytes.
const maxIssued = 16 << 10

// clusterCredentials lets the hub alone make ClusterCredentials: an agent has
// certificates signed by what they say. Agents answer in the status. What it says
// of certificates is checked by the controller, which reports to the user when it is
// not to be trusted.
type clusterCredentials struct{}

var _ admission.ValidationInterface = clusterCredentials{}

func (clusterCredentials) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate refuses what is not the hub's or an agent's to write.
func (clusterCredentials) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r := a.GetResource()
	if r.Group != muster.GroupName || r.Resource != "clustercredentials" {
		return nil
	}
	var now, before v1alpha1.ClusterCredential
	if err := errors.Join(decode(a.GetObject(), &now), decode(a.GetOldObject(), &before)); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the ClusterCredential cannot be read: %v", err))
	}
	switch {
	case a.GetOperation() == admission.Update && !apiequality.Semantic.DeepEqual(now.Spec, before.Spec):
		return apierrors.NewForbidden(r.GroupResource(), a.GetName(), errors.New("the spec of a cluster credential can't be changed"))
	case isHub(a.GetUserInfo()):
		return nil
	case a.GetSubresource() != "status":
		return apierrors.NewForbidden(r.GroupResource(), a.GetName(), errors.New("cluster credentials are written by the hub only; create an AccessRequest"))
	}
	if err := checkAnswer(&now.Status); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// checkAnswer checks the size and shape of an agent's answer.
func checkAnswer(s *v1alpha1.ClusterCredentialStatus) error {
	for _, c := range s.Conditions {
		switch {
		case c.Type != muster.ConditionIssued && c.Type != muster.ConditionFailed:
			return fmt.Errorf("status.conditions: an agent sets %s and %s only, not %q", muster.ConditionIssued, muster.ConditionFailed, c.Type)
		case len(c.Message) > limits.AccessMessage:
			return fmt.Errorf("status.conditions: the message of %s has %d bytes, and may have %d",
				c.Type, len(c.Message), limits.AccessMessage)
		}
	}
	for field, size := range map[string]int{"certificate": len(s.Certificate), "sealedToken": len(s.SealedToken)} {
		if size > maxIssued {
			return fmt.Errorf("status.%s has %d bytes, and may have %d", field, size, maxIssued)
		}
	}
	return nil
}
