package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/policy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
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
	hub := a.engine.Manager
	errCredential := a.writtenCredentials.Read(ctx, hub.GetCache(), hub.GetAPIReader(), r.NamespacedName, c)
	requestKey := client.ObjectKey{Name: r.Name}
	errRequest := a.engine.Local.GetCache().Get(ctx, requestKey, request)
	failed := errors.Join(client.IgnoreNotFound(errCredential), client.IgnoreNotFound(errRequest))
	switch {
	case a.writtenRequests.IsBehind(requestKey, request), errors.Is(failed, engine.ErrOutdated):
		return reconcile.Result{RequeueAfter: engine.CopyTimeout}, nil
	case failed != nil:
		return reconcile.Result{}, failed
	case errCredential != nil && errRequest != nil:
		a.forget(r)
		a.tunnels.keep(nil, r.Name, policy.Policy{})
		return reconcile.Result{}, nil //nolint:nilerr // neither is there any more
	case errCredential != nil:
		a.tunnels.keep(nil, r.Name, policy.Policy{})
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
	a.tunnels.keep(v.Credential, v.Credential.Name, v.Policy)
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
	if r := a.rights.Load(); r != nil {
		return r.able, true
	}
	return nil, false
}

// reportIssued hands over what the cluster has issued.
func (a *agent) reportIssued(ctx context.Context, v *decide.View, issued v1alpha1.IssuedAccess, reason string) error {
	until := issued.NotAfter.UTC().Format("2006-01-02T15:04:05Z")
	wrote, err := a.report(ctx, v, func(s *v1alpha1.ClusterCredentialStatus) {
		s.IssuedAccess = issued
		meta.RemoveStatusCondition(&s.Conditions, muster.ConditionFailed)
		a.set(s, muster.ConditionIssued, metav1.ConditionTrue, reason, "valid until "+until)
	})
	if err != nil || !wrote {
		return err
	}
	c := v.Credential
	a.Log.Info("gave a user access", append(about(c),
		"reason", reason, "key", issued.KeyHash, "serial", issued.Serial, "until", until)...)
	a.event(ctx, c, corev1.EventTypeNormal, reason,
		fmt.Sprintf("%s, with the key %s until %s", sentence(c), issued.KeyHash, until))
	return nil
}

// reportFailed reports that nothing is issued, or that it was withdrawn.
func (a *agent) reportFailed(ctx context.Context, v *decide.View, s decide.Step, left v1alpha1.IssuedAccess) error {
	wrote, err := a.report(ctx, v, func(status *v1alpha1.ClusterCredentialStatus) {
		status.IssuedAccess = left
		a.set(status, muster.ConditionIssued, metav1.ConditionFalse, s.Reason, s.Message)
		a.set(status, muster.ConditionFailed, metav1.ConditionTrue, s.Reason, s.Message)
	})
	if err != nil || !wrote {
		return err
	}
	c := v.Credential
	a.Log.Warn("gave a user no access", append(about(c), "reason", s.Reason, "because", s.Message)...)
	a.event(ctx, c, corev1.EventTypeWarning, s.Reason, fmt.Sprintf("%s: refused: %s", sentence(c), s.Message))
	return nil
}

// reportWaiting reports what a credential waits for.
func (a *agent) reportWaiting(ctx context.Context, v *decide.View, reason, message string) error {
	_, err := a.report(ctx, v, func(s *v1alpha1.ClusterCredentialStatus) {
		a.set(s, muster.ConditionIssued, metav1.ConditionFalse, reason, message)
	})
	return err
}

// about are the attributes of log lines about a credential.
func about(c *v1alpha1.ClusterCredential) []any {
	return []any{"user", c.Spec.User, "requester", c.Spec.Requester, "namespace", c.Spec.Namespace,
		"request", c.Spec.AccessRequest.Namespace + "/" + c.Spec.AccessRequest.Name}
}

// sentence says what a credential is for.
func sentence(c *v1alpha1.ClusterCredential) string {
	s := c.Spec
	return fmt.Sprintf("access to the namespace %s for the user %q of the hub %s, "+
		"asked for by %q in the access request %s/%s",
		s.Namespace, s.User, s.HubID, s.Requester, s.AccessRequest.Namespace, s.AccessRequest.Name)
}

func (a *agent) set(
	s *v1alpha1.ClusterCredentialStatus, kind string, status metav1.ConditionStatus, reason, message string,
) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text.Cut(message, limits.AccessMessage),
		LastTransitionTime: metav1.NewTime(a.Clock.Now()),
	})
}

// report writes the status of a credential when it changes. It fails when the object
// is another by now.
func (a *agent) report(
	ctx context.Context, v *decide.View, change func(*v1alpha1.ClusterCredentialStatus),
) (wrote bool, err error) {
	c := v.Credential.DeepCopy()
	wrote, err = patch.Status(ctx, a.hub, c, func() bool {
		change(&c.Status)
		return !equality.Semantic.DeepEqual(v.Credential.Status, c.Status)
	})
	if err != nil {
		return false, fmt.Errorf("report on the credential %s to the hub: %w", c.Name, err)
	}
	if wrote {
		a.writtenCredentials.Wrote(c)
		v.Credential = c
	}
	return wrote, nil
}

// event leaves an event for the cluster's owner, beside the policy, of who was given
// access and who was not.
func (a *agent) event(ctx context.Context, c *v1alpha1.ClusterCredential, kind, reason, note string) {
	source := event.Source{
		Controller: cluster.AgentReportingController,
		Instance:   cluster.AgentReportingController + "-" + a.ClusterName,
		Clock:      a.Clock,
	}
	policy := corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: a.Namespace, Name: muster.PolicyConfigMap,
	}
	e := source.New(policy, event.What{Type: kind, Reason: reason, Action: "UserAccess", Note: note})
	e.GenerateName = muster.PolicyConfigMap + "-"
	if err := a.local.Create(ctx, e); err != nil {
		a.Log.Debug("cannot create an event in the managed cluster", "reason", reason, "credential", c.Name, "err", err)
	}
}

// made reports whether this agent has made a certificate request.
func (a *agent) made(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (bool, error) {
	name := a.author.Load()
	if name == nil || *name == "" {
		// A request that is not stored shows it as well, on all versions of
		// Kubernetes and without further rights.
		probe := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "muster-access-"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: r.Spec.Request, SignerName: r.Spec.SignerName, Usages: r.Spec.Usages,
			},
		}
		if err := a.local.Create(ctx, probe, client.DryRunAll); err != nil {
			return false, fmt.Errorf("find out who the agent is in the managed cluster: %w", err)
		}
		name = &probe.Spec.Username
		a.author.Store(name)
	}
	return *name != "" && r.Spec.Username == *name, nil
}

// removeStray deletes a certificate request of this agent whose credential is gone.
func (a *agent) removeStray(ctx context.Context, r *certificatesv1.CertificateSigningRequest) error {
	ours, err := a.made(ctx, r)
	if err != nil || !ours {
		return err
	}
	return a.remove(ctx, r)
}
