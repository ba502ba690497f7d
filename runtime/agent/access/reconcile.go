package access

import (
	"context"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/policy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// maxSteps bounds how far a credential is taken in one reconcile: a certificate request
// is made, approved, and waited for.
const maxSteps = 4

// maxUnreported is how many attempts in a row may fail before the hub gets to know.
const maxUnreported = 3

// reconcile takes a credential as far as it goes now, and removes the certificate
// request of one that is gone.
func (a *agent) reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	if r.Name == engine.General {
		return a.reconcileRights(ctx)
	}
	able, known := a.able()
	if !known {
		return reconcile.Result{}, nil // all would be refused; reconcileRights queues it again
	}
	c, request := &v1alpha1.ClusterCredential{}, &certificatesv1.CertificateSigningRequest{}
	errCredential := a.engine.GetCache().Get(ctx, r.NamespacedName, c)
	if client.IgnoreNotFound(errCredential) != nil {
		return reconcile.Result{}, errCredential
	}
	requestKey := client.ObjectKey{Name: r.Name}
	errRequest := a.engine.Local.GetCache().Get(ctx, requestKey, request)
	if client.IgnoreNotFound(errRequest) != nil {
		return reconcile.Result{}, errRequest
	}
	switch {
	case a.writtenRequests.IsBehind(requestKey, request), a.writtenCredentials.IsBehind(r.NamespacedName, c):
		return reconcile.Result{RequeueAfter: engine.CopyTimeout}, nil
	case errCredential != nil && errRequest != nil:
		a.forget(r)
		return reconcile.Result{}, nil //nolint:nilerr // neither is there any more
	case errCredential != nil:
		return reconcile.Result{}, a.removeStray(ctx, request)
	case errRequest != nil:
		request = nil
	}
	v := &decide.View{
		ClusterName: a.ClusterName, HubID: a.hubID, AgentNamespace: a.Namespace, Able: able,
		Credential: c, Request: request,
	}
	after, err := a.advance(ctx, v)
	if err == nil {
		a.failing.Clear(r.Name)
		return reconcile.Result{RequeueAfter: after}, nil
	}
	a.reportFailing(ctx, r, v.Credential, err)
	return reconcile.Result{}, err
}

// advance takes a credential as far as it goes now. It returns after how long to look
// again; 0 waits for news. A panic is the error of this credential.
func (a *agent) advance(ctx context.Context, v *decide.View) (after time.Duration, err error) {
	defer recovery.Into(&err)
	if v.Policy, err = a.policy(ctx); err != nil {
		return 0, err
	}
	if v.Request != nil {
		if v.Ours, err = a.made(ctx, v.Request); err != nil {
			return 0, err
		}
	}
	for range maxSteps {
		v.Now = a.Clock.Now()
		v.SignerSilent = a.signer.isSilent(v.Now)
		v.Account = ""
		if issued := v.Credential.Status.IssuedAccess; len(issued.SealedToken) > 0 {
			account, err := a.accountOfWork(ctx, v.Credential, useraccess.ServiceAccount(issued.KeyHash))
			if err != nil {
				return 0, err
			}
			if account != nil {
				v.Account = account.UID
			}
		}
		step := decide.Next(*v)
		if step.Action == decide.Nothing {
			return step.After, nil
		}
		if done, err := a.do(ctx, v, step); done || err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// policy is what the cluster's owner has decided.
func (a *agent) policy(ctx context.Context) (policy.Policy, error) {
	cm := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: a.Namespace, Name: muster.PolicyConfigMap}
	err := a.engine.Local.GetCache().Get(ctx, key, cm)
	if client.IgnoreNotFound(err) != nil {
		return policy.Policy{}, err
	}
	if err != nil {
		cm = nil
	}
	p := policy.Read(cm)
	if err := p.Problem(); err == nil {
		a.problem.Clear()
	} else if a.problem.Changed(err.Error()) {
		a.Log.Warn("no user of the hub gets access", "err", err)
	}
	return p, nil
}

// forget drops what is remembered of a credential that is gone.
func (a *agent) forget(r reconcile.Request) {
	a.writtenCredentials.Forget(r.NamespacedName)
	a.writtenRequests.Forget(client.ObjectKey{Name: r.Name})
	a.failing.Clear(r.Name)
}

// reportFailing reports to the hub what fails again and again, and is tried again.
func (a *agent) reportFailing(ctx context.Context, r reconcile.Request, c *v1alpha1.ClusterCredential, err error) {
	if a.queue.Failures(r.Name) < maxUnreported || !a.failing.Changed(r.Name, err.Error()) {
		return
	}
	v := &decide.View{Credential: c}
	if errReport := a.reportWaiting(ctx, v, muster.ReasonTryingAgain, err.Error()); errReport != nil {
		a.Log.Debug("cannot report on a credential", "credential", c.Name, "err", errReport)
	}
}

// able are the modes that the agent has the rights for, as far as that is known.
func (a *agent) able() (modes []v1alpha1.AccessMode, known bool) {
	a.rights.mu.Lock()
	defer a.rights.mu.Unlock()
	return slices.Clone(a.rights.able), a.rights.known
}
