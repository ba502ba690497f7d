package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// boundTokens keeps bootstrap tokens that are bound to clusters from asking for
// the certificates of others.
type boundTokens struct{}

var _ admission.ValidationInterface = &boundTokens{}

func (*boundTokens) Handles(op admission.Operation) bool { return op == admission.Create }

// Validate checks the certificate requests of users with a bound token.
func (p *boundTokens) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	bound, ok := boundClusters(a.GetUserInfo())
	if !ok || !concerns(a, certificatesv1.GroupName, "certificatesigningrequests") {
		return nil
	}
	request, ok := a.GetObject().(*certificates.CertificateSigningRequest)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a CertificateSigningRequest, got %T", a.GetObject()))
	}
	refuse := func(why error) error {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), request.Name,
			fmt.Errorf("the bootstrap token of user %q is bound to %s: %w", a.GetUserInfo().GetName(), namesOf(bound), why))
	}
	// The request's own name counts, if it came with one: the prefix for generated
	// names is then of no effect.
	identity, err := cluster.ParseRequest(request.Labels, request.Spec.SignerName, request.Spec.Request)
	switch {
	case err != nil:
		return refuse(err)
	case !slices.Contains(bound, identity.Cluster):
		return refuse(fmt.Errorf("the request is for the cluster %q", identity.Cluster))
	case !strings.HasPrefix(cmp.Or(a.GetName(), request.GenerateName), identity.Cluster+"-"):
		return refuse(fmt.Errorf("the request's name must begin with %q", identity.Cluster+"-"))
	}
	return nil
}
