package debug

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Allowed asks whether a user has a right, and if not, why.
func Allowed(ctx context.Context, c client.Client, who user.Info, right authorizationv1.ResourceAttributes) (allowed bool, reason string, err error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range who.GetExtra() {
		extra[k] = v
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), Groups: who.GetGroups(), UID: who.GetUID(), Extra: extra, ResourceAttributes: &right,
	}}
	if err := c.Create(ctx, review); err != nil {
		return false, "", fmt.Errorf("ask for the rights of %s: %w", who.GetName(), err)
	}
	return review.Status.Allowed, review.Status.Reason, nil
}
