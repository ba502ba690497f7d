package access

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// How often the agent asks what it may do: more often while it lacks something, and
// most often while it gets no answer.
const (
	rightsPeriod     = time.Hour
	rightsSoonPeriod = time.Minute
	rightsRetry      = 5 * time.Second
)

// rights are the modes that the agent may give access by.
type rights struct {
	mu   sync.Mutex
	able []v1alpha1.AccessMode
	// until is when to ask again.
	until time.Time
	known bool
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
	before, known := a.able()
	if !known || !now.Before(a.rights.until) {
		able, lacking, err := a.askRights(ctx)
		if err != nil {
			a.Log.Debug("cannot ask the managed cluster what the agent may do, trying again", "err", err)
			return reconcile.Result{RequeueAfter: rightsRetry}, nil
		}
		period := rightsPeriod
		if len(lacking) > 0 {
			period = rightsSoonPeriod
			if !known || !slices.Equal(able, before) {
				a.Log.Warn("the agent lacks rights in the cluster for user access: give it the ClusterRole for user "+
					"access, as muster_klusterlet does with user_access", "lacking", strings.Join(lacking, ", "))
			}
		}
		a.rights.mu.Lock()
		a.rights.able, a.rights.until, a.rights.known = able, now.Add(period), true
		a.rights.mu.Unlock()
		if !known || !slices.Equal(able, before) {
			a.wakeAll(ctx)
		}
	}
	a.Annotate(muster.UserAccessAnnotation, a.ability(now))
	return reconcile.Result{RequeueAfter: engine.Soonest(a.rights.until.Sub(now), a.signer.pauses(now))}, nil
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
