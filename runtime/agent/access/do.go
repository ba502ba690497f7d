package access

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// approvalReason is the reason of the agent's approvals.
const approvalReason = "MusterUserAccess"

// do takes a step, and keeps the view true. done says that there is nothing more to do
// until there is news.
func (a *agent) do(ctx context.Context, v *decide.View, s decide.Step) (done bool, err error) {
	switch s.Action {
	case decide.Create:
		return false, a.create(ctx, v)
	case decide.Approve:
		return false, a.approve(ctx, v)
	case decide.Certify:
		return false, a.certify(ctx, v, s)
	case decide.Token:
		return a.token(ctx, v, s)
	case decide.Refuse:
		return false, a.refuse(ctx, v, s)
	case decide.Withdraw:
		return false, a.withdraw(ctx, v, s)
	case decide.Remove:
		return true, a.remove(ctx, v.Request)
	}
	return true, nil
}

// create makes the certificate request.
func (a *agent) create(ctx context.Context, v *decide.View) error {
	r := a.newRequest(v.Credential)
	err := a.local.Create(ctx, r)
	if apierrors.IsAlreadyExists(err) {
		// The cache is late, or does not show it because it has not the agent's labels.
		return a.found(ctx, v)
	}
	if err != nil {
		return fmt.Errorf("create the certificate request %s in the managed cluster: %w", r.Name, err)
	}
	a.author.Store(&r.Spec.Username)
	a.writtenRequests.Wrote(r)
	v.Request, v.Ours = r, true
	return nil
}

func (a *agent) newRequest(c *v1alpha1.ClusterCredential) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:   c.Name,
			Labels: a.labels(),
			Annotations: map[string]string{
				muster.RequesterAnnotation:     c.Spec.Requester,
				muster.AccessRequestAnnotation: c.Spec.AccessRequest.Namespace + "/" + c.Spec.AccessRequest.Name,
			},
		},
		Spec: decide.RequestSpec(c),
	}
}

// found goes on with a certificate request that is there already. Anybody may have made it.
func (a *agent) found(ctx context.Context, v *decide.View) error {
	r := &certificatesv1.CertificateSigningRequest{}
	if err := a.local.Get(ctx, client.ObjectKey{Name: v.Credential.Name}, r); err != nil {
		return fmt.Errorf("read the certificate request %s in the managed cluster: %w", v.Credential.Name, err)
	}
	ours, err := a.made(ctx, r)
	v.Request, v.Ours = r, ours
	return err
}

// approve approves a request that the agent has made. The API server refuses it if
// the object is another one by now: the UID and the version are in the write.
func (a *agent) approve(ctx context.Context, v *decide.View) error {
	r, asked := v.Request.DeepCopy(), v.Credential.Spec
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: approvalReason,
		Message: fmt.Sprintf("for %q of the hub %s, as %q has asked by the access request %s/%s", asked.User, v.HubID,
			asked.Requester, asked.AccessRequest.Namespace, asked.AccessRequest.Name),
		LastUpdateTime: metav1.NewTime(v.Now),
	})
	if err := a.local.SubResource("approval").Update(ctx, r); err != nil {
		return fmt.Errorf("approve the certificate request %s in the managed cluster: %w", r.Name, err)
	}
	if r.UID != v.Request.UID {
		return fmt.Errorf("approve the certificate request %s in the managed cluster: it is another one by now", r.Name)
	}
	a.writtenRequests.Wrote(r)
	v.Request = r
	return nil
}

// certify hands over the certificate.
func (a *agent) certify(ctx context.Context, v *decide.View, s decide.Step) error {
	issued, err := decide.Issued(v.Request.Status.Certificate, s.KeyHash)
	if err != nil {
		return err
	}
	a.signer.signs()
	return a.reportIssued(ctx, v, issued, muster.ReasonCertificateIssued)
}

// refuse reports that nothing is issued.
func (a *agent) refuse(ctx context.Context, v *decide.View, s decide.Step) error {
	if s.Signer != "" {
		a.signerFails(s.Signer)
	}
	return a.reportFailed(ctx, v, s, v.Credential.Status.IssuedAccess)
}

// withdraw takes back what was issued, as far as an agent can. A token ends with its
// service account, which the cloud's work makes again. A certificate can't be taken
// back: that is reported to the hub, which removes the bindings of its key.
func (a *agent) withdraw(ctx context.Context, v *decide.View, s decide.Step) error {
	c := v.Credential
	left := c.Status.IssuedAccess
	if len(left.SealedToken) > 0 {
		if err := a.removeAccount(ctx, c, left.KeyHash); err != nil {
			return err
		}
		s.Message += "; its tokens are void"
		left.NotAfter = ptr.To(metav1.NewTime(v.Now))
	} else if left.NotAfter != nil {
		s.Message += fmt.Sprintf("; its certificate can't be recalled: it is valid until %s, "+
			"and worth nothing once the hub has taken its key out of the works",
			left.NotAfter.UTC().Format("2006-01-02T15:04:05Z"))
	}
	left.Certificate, left.SealedToken = nil, nil
	return a.reportFailed(ctx, v, s, left)
}

// remove deletes a certificate request of the agent, and no other of its name.
func (a *agent) remove(ctx context.Context, r *certificatesv1.CertificateSigningRequest) error {
	err := a.local.Delete(ctx, r, client.Preconditions{UID: ptr.To(r.UID)})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		a.writtenRequests.Removed(r)
		return nil
	}
	return fmt.Errorf("delete the certificate request %s in the managed cluster: %w", r.Name, err)
}

// How often the agent asks what it may do: more often while it lacks something, and
// most often while it gets no answer.
const (
	rightsPeriod     = time.Hour
	rightsSoonPeriod = time.Minute
	rightsRetry      = 5 * time.Second
)

// rights are the modes that the agent may give access by, and when to ask again.
type rights struct {
	able  []v1alpha1.AccessMode
	until time.Time
}

// needs are the rights that each mode needs in the managed cluster.
func needs() map[v1alpha1.AccessMode][]authorizationv1.ResourceAttributes {
	const group, requests = certificatesv1.GroupName, "certificatesigningrequests"
	return map[v1alpha1.AccessMode][]authorizationv1.ResourceAttributes{
		v1alpha1.AccessCertificate: {
			{Group: group, Resource: requests, Verb: "create"},
			{Group: group, Resource: requests, Verb: "delete"},
			{Group: group, Resource: requests, Subresource: "approval", Verb: "update"},
			{Group: group, Resource: "signers", Name: certificatesv1.KubeAPIServerClientSignerName, Verb: "approve"},
		},
		v1alpha1.AccessToken: {
			{Resource: "serviceaccounts", Subresource: "token", Verb: "create"},
			{Resource: "serviceaccounts", Verb: "delete"},
		},
	}
}

// reconcileRights asks what the agent may do when it is time to, reports it to the hub,
// and queues the credentials when it has changed.
func (a *agent) reconcileRights(ctx context.Context) (reconcile.Result, error) {
	now := a.Clock.Now()
	before := a.rights.Load()
	if before == nil || !now.Before(before.until) {
		able, lacking, err := a.askRights(ctx)
		if err != nil {
			a.Log.Debug("cannot ask the managed cluster what the agent may do, trying again", "err", err)
			return reconcile.Result{RequeueAfter: rightsRetry}, nil
		}
		changed, period := before == nil || !slices.Equal(able, before.able), rightsPeriod
		if len(lacking) > 0 {
			period = rightsSoonPeriod
		}
		if changed && len(lacking) > 0 {
			a.Log.Warn("the agent lacks rights in the cluster for user access: give it the ClusterRole for user "+
				"access, as muster_klusterlet does with user_access", "lacking", strings.Join(lacking, ", "))
		}
		a.rights.Store(&rights{able, now.Add(period)})
		if changed {
			a.wakeAll(ctx)
		}
	}
	a.Annotate(muster.UserAccessAnnotation, a.ability(now))
	return reconcile.Result{RequeueAfter: engine.Soonest(a.rights.Load().until.Sub(now), a.signer.pauses(now))}, nil
}

// wakeAll queues all credentials, and all certificate requests that may be left of
// others.
func (a *agent) wakeAll(ctx context.Context) {
	all := a.allCredentials(ctx, nil)
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := a.engine.Local.GetCache().List(ctx, list); err != nil {
		a.Log.Debug("cannot list the certificate requests", "err", err)
	}
	for i := range list.Items {
		all = append(all, a.credentialOfRequest(ctx, &list.Items[i])...)
	}
	for _, r := range all {
		a.queue.Add(r.Name)
	}
}

// ability are the modes that are reported to the hub. A signer that does not sign makes a
// mode that the agent has the rights for useless.
func (a *agent) ability(now time.Time) string {
	var words []string
	able, _ := a.able()
	for _, mode := range able {
		if mode != v1alpha1.AccessCertificate || !a.signer.isSilent(now) {
			words = append(words, string(mode))
		}
	}
	return strings.Join(words, ",")
}

func (a *agent) askRights(ctx context.Context) (able []v1alpha1.AccessMode, lacking []string, err error) {
	for _, mode := range []v1alpha1.AccessMode{v1alpha1.AccessCertificate, v1alpha1.AccessToken} {
		before := len(lacking)
		for _, need := range needs()[mode] {
			review := &authorizationv1.SelfSubjectAccessReview{}
			review.Spec.ResourceAttributes = &need
			if err := a.local.Create(ctx, review); err != nil {
				return nil, nil, err
			}
			if !review.Status.Allowed {
				what := slices.DeleteFunc([]string{need.Resource, need.Subresource, need.Name},
					func(s string) bool { return s == "" })
				lacking = append(lacking, need.Verb+" "+strings.Join(what, "/"))
			}
		}
		if len(lacking) == before {
			able = append(able, mode)
		}
	}
	return able, lacking, nil
}

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
