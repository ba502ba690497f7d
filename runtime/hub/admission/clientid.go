package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// clientIDs keeps bootstrap identities from claiming client IDs by other ways
// than a ClusterRegistration, and tokens that are for certain client IDs from
// other clusters.
type clientIDs struct {
	*tokenScopes
	client kubernetes.Interface
}

var (
	_ admission.ValidationInterface                = &clientIDs{}
	_ initializer.WantsExternalKubeInformerFactory = &clientIDs{}
	_ initializer.WantsExternalKubeClientSet       = &clientIDs{}
)

// SetExternalKubeClientSet is called by the API server before it serves.
func (p *clientIDs) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// ValidateInitialization fails the server's start when something is missing.
func (p *clientIDs) ValidateInitialization() error {
	if p.client == nil {
		return errors.New("no client was given")
	}
	return p.tokenScopes.ValidateInitialization()
}

func (*clientIDs) Handles(op admission.Operation) bool { return op == admission.Create }

// Validate checks clusters and certificate requests of bootstrap identities.
func (p *clientIDs) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	creates, requests := concerns(a, cluster.GroupName, "managedclusters"), concerns(a, certificatesv1.GroupName, "certificatesigningrequests")
	who := a.GetUserInfo()
	object, ok := a.GetObject().(metav1.Object)
	if !ok || !creates && !requests || !cluster.IsBootstrap(who.GetName(), who.GetGroups()) {
		return nil
	}
	if creates {
		if key := reservedKey(object); key != "" {
			return admission.NewForbidden(a, fmt.Errorf("user %q may not set %s: register by a client ID with a ClusterRegistration", who.GetName(), key))
		}
	}
	scope, _, err := p.of(who)
	switch {
	case err != nil:
		return admission.NewForbidden(a, err)
	case len(scope.ClientIDs) == 0:
		return nil
	case creates:
		return admission.NewForbidden(a, fmt.Errorf("the bootstrap token of user %q is for clusters with certain client IDs, which the hub creates: "+
			"start the agent without --cluster-name and with --client-id", who.GetName()))
	}
	name := object.GetLabels()[cluster.NameLabel]
	if slices.Contains(scope.UsedBy, name) {
		return nil
	}
	// The cache may not show yet what the token has just registered.
	if registered, err := p.registered(ctx, a, name); err != nil || registered {
		return err
	}
	return admission.NewForbidden(a, fmt.Errorf("the bootstrap token of user %q is for clusters with certain client IDs, and %s %q",
		who.GetName(), cluster.RefusedUnregistered, name))
}

// reservedKey is an annotation or label that bootstrap identities may not set.
func reservedKey(object metav1.Object) string {
	for _, key := range []string{muster.ClientIDAnnotation, muster.ClusterUIDAnnotation} {
		if _, ok := object.GetAnnotations()[key]; ok {
			return "the annotation " + key
		}
	}
	if _, ok := object.GetLabels()[muster.RegistrationLabel]; ok {
		return "the label " + muster.RegistrationLabel
	}
	return ""
}

// registered reports whether the hub has registered the cluster with the user's
// token.
func (p *clientIDs) registered(ctx context.Context, a admission.Attributes, name string) (bool, error) {
	id, _ := cluster.TokenOfUser(a.GetUserInfo().GetName())
	secret, err := p.client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, cluster.TokenSecretPrefix+id, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up what the bootstrap token %q was used for: %w", id, err)
	}
	scope, err := cluster.ParseTokenScope(secret.Annotations)
	if err != nil {
		return false, admission.NewForbidden(a, err)
	}
	return name != "" && slices.Contains(scope.UsedBy, name), nil
}
