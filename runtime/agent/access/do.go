package access

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
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
	a.author.learn(r)
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
