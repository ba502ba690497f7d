package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
)

// mayAsk checks the verbs by which somebody may ask for access: use on the
// logical cloud and, for another user, impersonate on that user and on each group
// that the user is said to have.
func (p *accessRequests) mayAsk(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest) error {
	who := a.GetUserInfo()
	if !p.may(ctx, who, authorizer.AttributesRecord{
		Verb: muster.VerbUse, APIGroup: muster.GroupName, Resource: "logicalclouds", Namespace: a.GetNamespace(), Name: r.Spec.LogicalCloud,
	}) {
		return fmt.Errorf("user %q cannot %s the LogicalCloud %q: the verb %q on logicalclouds is missing", who.GetName(), muster.VerbUse, r.Spec.LogicalCloud, muster.VerbUse)
	}
	if r.Spec.User == who.GetName() {
		return nil
	}
	const verb = "impersonate"
	asUser := authorizer.AttributesRecord{Verb: verb, Resource: "users", Name: r.Spec.User}
	if namespace, name, err := serviceaccount.SplitUsername(r.Spec.User); err == nil {
		asUser.Resource, asUser.Namespace, asUser.Name = "serviceaccounts", namespace, name
	}
	if !p.may(ctx, who, asUser) {
		return fmt.Errorf("user %q cannot ask for access of user %q: the verb %s on %s %q is missing; leave spec.user out to ask for yourself",
			who.GetName(), r.Spec.User, verb, asUser.Resource, asUser.Name)
	}
	for _, group := range r.Spec.Requester.Groups {
		if !p.may(ctx, who, authorizer.AttributesRecord{Verb: verb, Resource: "groups", Name: group}) {
			return fmt.Errorf("user %q cannot say that user %q is in the group %q: the verb %s on groups %q is missing; leave it out of spec.requester.groups",
				who.GetName(), r.Spec.User, group, verb, group)
		}
	}
	return nil
}

// checkNumber checks how many requests the user has for the cluster, and that the
// key was not withdrawn from it. What the hub asks for itself does not count: it
// renews while access goes on.
func (p *accessRequests) checkNumber(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest, cloud *v1alpha1.LogicalCloud, keyHash string) error {
	if until, revoked := cloud.RevokedUntil(r.Spec.ManagedCluster, keyHash, p.clock.Now()); revoked {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
			fmt.Errorf("the key %s was withdrawn from the cluster %q, and a certificate of it lives until %s: ask with another key", keyHash, r.Spec.ManagedCluster, until.UTC().Format(time.RFC3339)))
	}
	if r.Labels[muster.HubMadeLabel] != "" {
		return nil
	}
	selector := fields.Set{"spec.logicalCloud": r.Spec.LogicalCloud, "spec.managedCluster": r.Spec.ManagedCluster, "spec.user": r.Spec.User}.AsSelector()
	list, err := p.client.Resource(v1alpha1.GroupVersion.WithResource("accessrequests")).Namespace(a.GetNamespace()).
		List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("count the access requests of user %q: %w", r.Spec.User, err))
	}
	live := map[string]bool{}
	for i := range list.Items {
		var have v1alpha1.AccessRequest
		if err := decode(&list.Items[i], &have); err != nil {
			return apierrors.NewInternalError(err)
		}
		live[have.Name] = have.Labels[muster.HubMadeLabel] == "" && !have.HasEnded()
	}
	limit := int(cloud.Spec.Access.MaxRequestsPerUser)
	if limit == 0 {
		limit = 10
	}
	key := fmt.Sprintf("%s/%s/%s/%s", a.GetNamespace(), r.Spec.LogicalCloud, r.Spec.ManagedCluster, r.Spec.User)
	return p.recent.Admit(p.clock.Now(), recentAccess{key, r.Name}, a.IsDryRun(), func(before []recentAccess) error {
		n := countLive(live, key, before)
		if n < limit {
			return nil
		}
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
			fmt.Errorf("user %q has %d access requests for the cluster %q that have not ended, and the logical cloud %q allows no more than %d "+
				"(spec.access.maxRequestsPerUser): delete those that are of no use", r.Spec.User, n, r.Spec.ManagedCluster, cloud.Name, limit))
	})
}

// inFlight is how long an admitted access request counts that the server does not
// have. Afterwards it is there, was deleted, or was refused by a later check.
const inFlight = 2 * time.Second

// recentAccess is an access request that was admitted: its name, and whose it is.
type recentAccess struct{ key, name string }

// countLive counts the requests that have not ended, by name: those that the server has,
// and those that were admitted a moment ago.
func countLive(onServer map[string]bool, key string, admitted []recentAccess) (live int) {
	for _, alive := range onServer {
		if alive {
			live++
		}
	}
	for _, a := range admitted {
		if _, known := onServer[a.name]; a.key == key && !known {
			live++
		}
	}
	return live
}

// Limits of the events about refused requests. Equal refusals share one event for
// as long as it lives; a flood of different ones must not fill the store.
const (
	refusalsPerSecond = 1
	refusalsAtOnce    = 50
)

// accessRefusals leaves an event for each access request that was refused: there is
// no object that could show it.
type accessRefusals struct {
	events eventsclient.EventsV1Interface
	rate   flowcontrol.PassiveRateLimiter
}

// SetExternalKubeClientSet is called by the API server before it serves.
func (r *accessRefusals) SetExternalKubeClientSet(c kubernetes.Interface) {
	r.events, r.rate = c.EventsV1(), flowcontrol.NewTokenBucketPassiveRateLimiter(refusalsPerSecond, refusalsAtOnce)
}

// record makes the event, on the logical cloud that was asked for.
func (r *accessRefusals) record(
	ctx context.Context, a admission.Attributes, asked *v1alpha1.AccessRequest, cloud *v1alpha1.LogicalCloud, keyHash string, why error,
) {
	about := corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogicalCloud",
		Namespace: a.GetNamespace(), Name: asked.Spec.LogicalCloud,
	}
	if cloud != nil {
		about.UID = cloud.UID
	}
	reason := why.Error()
	if _, after, forbidden := strings.Cut(reason, " is forbidden: "); forbidden {
		reason = after // without the request's own name, by which equal refusals differ
	}
	source := event.Source{Controller: muster.GroupName + "/access", Instance: "muster-hub", Clock: clock.RealClock{}}
	e := source.New(about, event.What{
		Type: corev1.EventTypeWarning, Reason: muster.EventAccessRefused, Action: "Ask",
		Note: fmt.Sprintf("access refused: requester %q, user %q, cluster %q, key %s: %s",
			a.GetUserInfo().GetName(), asked.Spec.User, asked.Spec.ManagedCluster, orNone(keyHash), reason),
	})
	event.NameOnce(e, "access-refused-")
	log := logging.FromContext(ctx).With("namespace", e.Namespace, "note", e.Note)
	if !r.rate.TryAccept() {
		log.Info("access refused, and no event made, as there are too many")
		return
	}
	_, err := r.events.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		log.Error("make an event of a refused access request", "err", err)
	}
}

func orNone(keyHash string) string {
	if keyHash == "" {
		return "unknown"
	}
	return keyHash
}
