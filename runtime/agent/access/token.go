package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// token asks the cluster for a token and hands it over, sealed.
func (a *agent) token(ctx context.Context, v *decide.View, s decide.Step) (done bool, err error) {
	c := v.Credential
	if s.Signer != "" {
		a.signerFails(s.Signer)
	}
	name := useraccess.ServiceAccount(s.KeyHash)
	sa, err := a.accountOfWork(ctx, c, name)
	if err != nil {
		return false, err
	}
	if sa == nil {
		return true, a.reportWaiting(ctx, v, muster.ReasonServiceAccountMissing,
			fmt.Sprintf("the logical cloud's work has not brought the service account %s to the cluster yet", name))
	}
	uid, seconds := sa.UID, c.Spec.ExpirationSeconds
	if !s.Until.IsZero() {
		seconds = min(seconds, int32(s.Until.Sub(v.Now)/time.Second)) //nolint:gosec // at most a year
	}
	request := &authenticationv1.TokenRequest{
		// A newer API server refuses another service account of that name by it.
		ObjectMeta: metav1.ObjectMeta{UID: uid},
		Spec:       authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(seconds))},
	}
	if err := a.local.SubResource("token").Create(ctx, sa, request); err != nil {
		return false, fmt.Errorf("ask the managed cluster for a token of the service account %s/%s: %w",
			sa.Namespace, name, err)
	}
	token := request.Status.Token
	if err := decide.CheckToken(token, sa.Namespace, sa.Name, uid, seconds); err != nil {
		return false, err
	}
	sealed, err := useraccess.Seal(c.Spec.SealTo, []byte(token), string(c.Spec.AccessRequest.UID))
	if err != nil {
		return false, fmt.Errorf("seal the token: %w", err)
	}
	return false, a.reportIssued(ctx, v, v1alpha1.IssuedAccess{
		SealedToken: sealed, KeyHash: s.KeyHash, ServiceAccountUID: string(uid),
		NotBefore: ptr.To(metav1.NewTime(v.Now)), NotAfter: ptr.To(request.Status.ExpirationTimestamp),
	}, muster.ReasonTokenIssued)
}

// accountOfWork is a service account that the work of the credential's logical cloud
// has made, or nil. Anybody may have made one of that name; what a work has made, the
// agent itself has written down. It is in the namespace of the cloud's accounts; hubs
// of earlier versions have it in the cloud's own.
func (a *agent) accountOfWork(
	ctx context.Context, c *v1alpha1.ClusterCredential, name string,
) (found *corev1.ServiceAccount, err error) {
	cloud := c.Labels[muster.LogicalCloudLabel]
	if cloud == "" {
		return nil, nil
	}
	works := &workv1.AppliedManifestWorkList{}
	err = a.engine.Local.GetCache().List(ctx, works, client.MatchingLabels{muster.LogicalCloudLabel: cloud})
	if err != nil {
		return nil, err
	}
	own := muster.AccountNamespace(a.hubID, cloud)
	for _, w := range works.Items {
		if w.Spec.HubHash != a.hubHash || !w.DeletionTimestamp.IsZero() {
			continue
		}
		for _, r := range w.Status.AppliedResources {
			if r.Group != "" || r.Resource != "serviceaccounts" || r.Name != name || r.UID == "" {
				continue
			}
			account := &corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name, UID: types.UID(r.UID)},
			}
			switch r.Namespace {
			case own:
				return account, nil
			case c.Spec.Namespace:
				found = account // being moved, unless the hub is of an earlier version
			}
		}
	}
	return found, nil
}

// removeAccount deletes the service account of a key, which voids its tokens.
func (a *agent) removeAccount(ctx context.Context, c *v1alpha1.ClusterCredential, keyHash string) error {
	sa, err := a.accountOfWork(ctx, c, useraccess.ServiceAccount(keyHash))
	if sa == nil || err != nil {
		return err // no account: the work has removed it
	}
	err = a.local.Delete(ctx, sa, client.Preconditions{UID: &sa.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete the service account %s/%s, whose tokens are not allowed any more: %w",
		sa.Namespace, sa.Name, err)
}

// A signer that does not sign is not waited for again, where a token will do, for
// signerPause, and for longer each time, up to signerMaxPause.
const (
	signerPause    = 10 * time.Minute
	signerMaxPause = time.Hour
)

// signer is what is known about the cluster's signer of client certificates.
type signer struct {
	backoff *retry.Backoff

	mu    sync.Mutex
	until time.Time
}

// isSilent reports whether the signer is known not to sign.
func (s *signer) isSilent(now time.Time) bool { return s.pauses(now) > 0 }

// pauses is for how much longer the signer counts as one that does not sign.
func (s *signer) pauses(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.until.Sub(now))
}

// signs notes that the signer has signed.
func (s *signer) signs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
	s.backoff.Reset()
}

// signerFails notes that the signer does not sign as asked.
func (a *agent) signerFails(why string) {
	now := a.Clock.Now()
	if a.signer.isSilent(now) {
		return
	}
	a.signer.mu.Lock()
	a.signer.until = now.Add(a.signer.backoff.Next())
	until := a.signer.until
	a.signer.mu.Unlock()
	a.Log.Warn("the cluster's signer does not make client certificates; users that take a token get one at once",
		"until", until, "because", why)
	a.queue.Add(engine.General) // reports to the hub which modes are left
}
