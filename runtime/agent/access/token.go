package access

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// token asks the cluster for a token and hands it over, sealed.
func (a *agent) token(ctx context.Context, v decide.View, s decide.Step) (done bool, err error) {
	c := v.Credential
	if s.Signer != "" {
		a.signerFails(s.Signer)
	}
	name := useraccess.ServiceAccount(s.KeyHash)
	uid := a.accountOfWork(c, name)
	if uid == "" {
		return true, a.reportWaiting(ctx, c, muster.ReasonServiceAccountMissing,
			fmt.Sprintf("the logical cloud's work has not brought the service account %s/%s to the cluster yet", c.Spec.Namespace, name))
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.Spec.Namespace, Name: name}}
	request := &authenticationv1.TokenRequest{
		// A newer API server refuses another service account of that name by it.
		ObjectMeta: metav1.ObjectMeta{UID: uid},
		Spec:       authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(c.Spec.ExpirationSeconds))},
	}
	if err := a.local.SubResource("token").Create(ctx, sa, request); err != nil {
		return false, fmt.Errorf("ask the managed cluster for a token of the service account %s/%s: %w", c.Spec.Namespace, name, err)
	}
	token := request.Status.Token
	if err := decide.CheckToken(token, sa.Namespace, sa.Name, uid, c.Spec.ExpirationSeconds); err != nil {
		return false, err
	}
	sealed, err := useraccess.Seal(c.Spec.SealTo, []byte(token), string(c.Spec.AccessRequest.UID))
	if err != nil {
		return false, fmt.Errorf("seal the token: %w", err)
	}
	return false, a.reportIssued(ctx, c, v1alpha1.IssuedAccess{
		SealedToken: sealed, KeyHash: s.KeyHash,
		NotBefore: ptr.To(metav1.NewTime(v.Now)), NotAfter: ptr.To(request.Status.ExpirationTimestamp),
	}, muster.ReasonTokenIssued)
}

// accountOfWork is the UID of a service account that the work of the credential's
// logical cloud has made, or "". Anybody may have made one of that name; what a work
// has made, the agent itself has written down.
func (a *agent) accountOfWork(c *v1alpha1.ClusterCredential, name string) types.UID {
	cloud := c.Labels[muster.LogicalCloudLabel]
	for _, w := range a.works.Objects() {
		if cloud == "" || w.Labels[muster.LogicalCloudLabel] != cloud || w.Spec.HubHash != a.hubHash || !w.DeletionTimestamp.IsZero() {
			continue
		}
		for _, r := range w.Status.AppliedResources {
			if r.Group == "" && r.Resource == "serviceaccounts" && r.Namespace == c.Spec.Namespace && r.Name == name && r.UID != "" {
				return types.UID(r.UID)
			}
		}
	}
	return ""
}

// removeAccount deletes the service account of a key, which voids its tokens.
func (a *agent) removeAccount(ctx context.Context, c *v1alpha1.ClusterCredential, keyHash string) error {
	name := useraccess.ServiceAccount(keyHash)
	uid := a.accountOfWork(c, name)
	if uid == "" {
		return nil // the work has removed it
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.Spec.Namespace, Name: name}}
	err := a.local.Delete(ctx, sa, client.Preconditions{UID: &uid})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete the service account %s/%s, whose tokens are not allowed any more: %w", sa.Namespace, name, err)
}
