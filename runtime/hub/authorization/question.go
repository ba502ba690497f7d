package authorization

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// isQuestion reports whether somebody asks what a user may do, and does not do it.
func isQuestion(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || !info.IsResourceRequest || info.APIGroup != authorizationv1.GroupName {
		return false
	}
	switch info.Resource {
	case "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews":
		return true
	}
	return false
}

// checkWorks answers a question about works of a cluster that is not accepted as the
// request itself is answered: by the works that there are.
func (g *Agents) checkWorks(ctx context.Context, a authorizer.Attributes) error {
	reader := g.works.Load()
	if reader == nil {
		return errLives
	}
	works := &metav1.PartialObjectMetadataList{}
	works.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
	if err := (*reader).List(ctx, works, client.InNamespace(a.GetNamespace())); err != nil {
		return fmt.Errorf("find out which works of the cluster %s are being deleted: %w", a.GetNamespace(), err)
	}
	for i := range works.Items {
		if w := &works.Items[i]; w.DeletionTimestamp.IsZero() && (a.GetName() == "" || a.GetName() == w.Name) {
			return errLives
		}
	}
	return nil
}
