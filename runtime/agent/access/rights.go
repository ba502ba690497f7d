package access

import (
	"context"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

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

// rights are the modes that the agent may let users in by.
type rights struct {
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

// checkRights asks what the agent may do when it is time to, and tells the hub. It
// returns after how long to look again, and whether it is known.
func (a *agent) checkRights(ctx context.Context) (after time.Duration, known bool) {
	now := a.Clock.Now()
	if !a.rights.known || !now.Before(a.rights.until) {
		able, lacking, err := a.askRights(ctx)
		if err != nil {
			a.Log.Debug("cannot ask the managed cluster what the agent may do, trying again", "err", err)
			return rightsRetry, a.rights.known
		}
		period := rightsPeriod
		if len(lacking) > 0 {
			period = rightsSoonPeriod
			if !a.rights.known || len(able) != len(a.rights.able) {
				a.Log.Warn("the agent lacks rights in the cluster for user access: give it the ClusterRole for user access, "+
					"as muster_klusterlet does with user_access", "lacking", strings.Join(lacking, ", "))
			}
		}
		a.mu.Lock()
		a.rights = rights{able: able, until: now.Add(period), known: true}
		a.mu.Unlock()
	}
	a.Annotate(muster.UserAccessAnnotation, a.ability(now))
	after = a.rights.until.Sub(now)
	if left := a.signer.pauses(now); left > 0 {
		after = min(after, left)
	}
	return after, true
}

// ability are the modes that the hub is told of. A signer that does not sign makes a
// mode that the agent has the rights for useless.
func (a *agent) ability(now time.Time) string {
	var words []string
	for _, mode := range a.able() {
		if mode != v1alpha1.AccessCertificate || !a.signer.isSilent(now) {
			words = append(words, string(mode))
		}
	}
	return strings.Join(words, ",")
}

func (a *agent) askRights(ctx context.Context) (able []v1alpha1.AccessMode, lacking []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, mode := range []v1alpha1.AccessMode{v1alpha1.AccessCertificate, v1alpha1.AccessToken} {
		before := len(lacking)
		for _, need := range needs()[mode] {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &need}}
			if err := a.local.Create(ctx, review); err != nil {
				return nil, nil, err
			}
			if !review.Status.Allowed {
				what := slices.DeleteFunc([]string{need.Resource, need.Subresource, need.Name}, func(s string) bool { return s == "" })
				lacking = append(lacking, need.Verb+" "+strings.Join(what, "/"))
			}
		}
		if len(lacking) == before {
			able = append(able, mode)
		}
	}
	return able, lacking, nil
}
