package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
)

// accessRequests completes and checks AccessRequests: who asks, for which user, by which
// key and for how long. Whether the user is granted anything is the controller's
// to find out, as that changes.
type accessRequests struct {
	writes
	*server
	clock clock.PassiveClock
	// recent are the requests that the server's answers may not show yet.
	recent *budget.Recent[recentAccess]
	// refusals bounds the events about refused requests.
	refusals flowcontrol.PassiveRateLimiter
}

func newAccessRequests(s *server, clk clock.PassiveClock) accessRequests {
	return accessRequests{
		server: s, clock: clk, recent: &budget.Recent[recentAccess]{Within: inFlight},
		refusals: flowcontrol.NewTokenBucketPassiveRateLimiter(refusalsPerSecond, refusalsAtOnce),
	}
}

// isHub reports whether a request is by the hub's own controllers, or by an
// administrator, which they are as well.
func isHub(u user.Info) bool { return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) }

// Admit says in a new request who made it, and fills in what it leaves out. The
// finalizer is the controller's; here it costs no write.
func (p accessRequests) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "accessrequests") || a.GetOperation() != admission.Create {
		return nil
	}
	r, _, err := objects[v1alpha1.AccessRequest](a)
	if err != nil {
		return err
	}
	object := a.GetObject().(*unstructured.Unstructured)
	who := a.GetUserInfo()
	if r.Spec.User == "" {
		r.Spec.User = who.GetName()
	}
	groups := r.Spec.Requester.Groups
	if r.Spec.User == who.GetName() {
		groups = who.GetGroups()
	}
	r.Spec.Requester = v1alpha1.Requester{Username: who.GetName(), UID: who.GetUID(), Groups: groups}
	if r.Spec.ExpirationSeconds == 0 {
		cloud, err := p.cloud(ctx, a.GetNamespace(), r.Spec.LogicalCloud)
		if err != nil && !apierrors.IsNotFound(err) {
			return apierrors.NewInternalError(err)
		}
		r.Spec.ExpirationSeconds = defaultLifetime(cloud)
	}
	requester, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r.Spec.Requester)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	for field, value := range map[string]any{"user": r.Spec.User, "requester": requester, "expirationSeconds": int64(r.Spec.ExpirationSeconds)} {
		if err := set(object, value, "spec", field); err != nil {
			return err
		}
	}
	if !slices.Contains(r.Finalizers, muster.AccessFinalizer) {
		object.SetFinalizers(append(r.Finalizers, muster.AccessFinalizer))
	}
	return nil
}

// defaultLifetime is what a request gets that does not say how long access lasts.
// Without a cloud it is refused later.
func defaultLifetime(cloud *v1alpha1.LogicalCloud) int32 {
	const usual = 8 * 60 * 60
	if cloud == nil {
		return usual
	}
	access := cloud.Spec.Access
	out := access.DefaultLifetimeSeconds
	if out == 0 {
		out = usual
	}
	if access.MaxLifetimeSeconds > 0 {
		out = min(out, access.MaxLifetimeSeconds)
	}
	return out
}

// cloud reads a logical cloud.
func (p accessRequests) cloud(ctx context.Context, namespace, name string) (*v1alpha1.LogicalCloud, error) {
	object, err := p.objects.Resource(v1alpha1.GroupVersion.WithResource("logicalclouds")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	cloud := &v1alpha1.LogicalCloud{}
	return cloud, decode(object, cloud)
}

// Validate checks a new request, and who writes to an existing one.
func (p accessRequests) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource()
	if resource.Group != muster.GroupName || resource.Resource != "accessrequests" {
		return nil
	}
	now, before, err := objects[v1alpha1.AccessRequest](a)
	if err != nil {
		return err
	}
	if now.Labels[muster.HubMadeLabel] != before.Labels[muster.HubMadeLabel] && !isHub(a.GetUserInfo()) {
		return forbidden(a, "the label %s is the hub's: leave it as it is", muster.HubMadeLabel)
	}
	if a.GetSubresource() == "" && a.GetOperation() == admission.Create {
		return p.create(ctx, a, &now)
	}
	switch {
	case !apiequality.Semantic.DeepEqual(now.Spec, before.Spec):
		return forbidden(a, "the spec of an access request can't be changed: create another one")
	case isHub(a.GetUserInfo()):
		return nil
	case a.GetSubresource() != "":
		return forbidden(a, "the status of an access request is written by the hub only")
	case slices.Contains(before.Finalizers, muster.AccessFinalizer) && !slices.Contains(now.Finalizers, muster.AccessFinalizer):
		return forbidden(a, "the finalizer %s is removed by the hub, once the rights are withdrawn in the cluster", muster.AccessFinalizer)
	}
	return nil
}

// create checks a new request, and leaves a trace of it in the audit log. That of
// a refusal is an event, too.
func (p accessRequests) create(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest) error {
	cloud, keyHash, err := p.check(ctx, a, r)
	if err == nil {
		_ = a.AddAnnotation("muster-fleet.io/access-request", fmt.Sprintf("user %q on the cluster %q of the logical cloud %q, key %s, for %d seconds",
			r.Spec.User, r.Spec.ManagedCluster, r.Spec.LogicalCloud, keyHash, r.Spec.ExpirationSeconds))
		return nil
	}
	_ = a.AddAnnotation("muster-fleet.io/access-refused", err.Error())
	if !a.IsDryRun() {
		p.record(ctx, a, r, cloud, keyHash, err)
	}
	return err
}

// check checks a new request.
func (p accessRequests) check(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest) (_ *v1alpha1.LogicalCloud, keyHash string, _ error) {
	if err := useraccess.CheckUser(r.Spec.User); err != nil {
		return nil, "", apierrors.NewBadRequest("spec.user: " + err.Error())
	}
	if err := p.mayAsk(ctx, a, r); err != nil {
		return nil, "", apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), err)
	}
	cloud, err := p.cloud(ctx, a.GetNamespace(), r.Spec.LogicalCloud)
	switch {
	case apierrors.IsNotFound(err):
		missing := field.NotFound(field.NewPath("spec", "logicalCloud"), r.Spec.LogicalCloud)
		missing.Detail = fmt.Sprintf("there is no LogicalCloud %q in the namespace %q", r.Spec.LogicalCloud, a.GetNamespace())
		return nil, "", apierrors.NewInvalid(a.GetKind().GroupKind(), a.GetName(), field.ErrorList{missing})
	case err != nil:
		return nil, "", apierrors.NewInternalError(err)
	case cloud.DeletionTimestamp != nil:
		return cloud, "", apierrors.NewBadRequest(fmt.Sprintf("spec.logicalCloud: the LogicalCloud %q is being deleted", cloud.Name))
	}
	hubID, err := p.hubID()
	if err != nil {
		return cloud, "", apierrors.NewServiceUnavailable(err.Error())
	}
	if keyHash, err = useraccess.CheckSpec(&r.Spec, &cloud.Spec.Access, hubID); err != nil {
		return cloud, keyHash, apierrors.NewBadRequest(err.Error())
	}
	if err := p.checkNumber(ctx, a, r, cloud, keyHash); err != nil {
		return cloud, keyHash, err
	}
	return cloud, keyHash, nil
}

// hubID is the name of this hub in subjects.
func (p accessRequests) hubID() (string, error) {
	system, err := p.namespaces.Get(metav1.NamespaceSystem)
	if err != nil {
		return "", fmt.Errorf("the hub does not know its ID yet, try again: %w", err)
	}
	return useraccess.HubID(string(system.UID)), nil
}

// mayAsk checks the verbs by which somebody may ask for access: use on the
// logical cloud and, for another user, impersonate on that user and on each group
// that the user is said to have.
func (p accessRequests) mayAsk(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest) error {
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
func (p accessRequests) checkNumber(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest, cloud *v1alpha1.LogicalCloud, keyHash string) error {
	if until, revoked := cloud.RevokedUntil(r.Spec.ManagedCluster, keyHash, p.clock.Now()); revoked {
		return forbidden(a, "the key %s was withdrawn from the cluster %q, and a certificate of it lives until %s: ask with another key", keyHash, r.Spec.ManagedCluster, until.UTC().Format(time.RFC3339))
	}
	if r.Labels[muster.HubMadeLabel] != "" {
		return nil
	}
	selector := fields.Set{"spec.logicalCloud": r.Spec.LogicalCloud, "spec.managedCluster": r.Spec.ManagedCluster, "spec.user": r.Spec.User}.AsSelector()
	list, err := p.objects.Resource(v1alpha1.GroupVersion.WithResource("accessrequests")).Namespace(a.GetNamespace()).
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
		return forbidden(a, "user %q has %d access requests for the cluster %q that have not ended, and the logical cloud %q allows no more than %d "+
			"(spec.access.maxRequestsPerUser): delete those that are of no use", r.Spec.User, n, r.Spec.ManagedCluster, cloud.Name, limit)
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

// record leaves an event for a request that was refused, on the logical cloud that was
// asked for: there is no object that could show it.
func (p accessRequests) record(
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
	if !p.refusals.TryAccept() {
		log.Info("access refused, and no event made, as there are too many")
		return
	}
	_, err := p.client.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
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

// maxIssued is how long the certificate or the token of an answer may be, in bytes.
const maxIssued = 16 << 10

// clusterCredentials lets the hub alone make ClusterCredentials: an agent has
// certificates signed by what they say. Agents answer in the status. What it says
// of certificates is checked by the controller, which reports to the user when it is
// not to be trusted.
type clusterCredentials struct{ writes }

// Validate refuses what is not the hub's or an agent's to write.
func (clusterCredentials) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r := a.GetResource()
	if r.Group != muster.GroupName || r.Resource != "clustercredentials" {
		return nil
	}
	now, before, err := objects[v1alpha1.ClusterCredential](a)
	if err != nil {
		return err
	}
	tunnels := before.Spec
	tunnels.Tunnels = now.Spec.Tunnels
	isNew := func(t v1alpha1.Tunnel) bool { return !slices.Contains(before.Spec.Tunnels, t) }
	endsTunnels := a.GetOperation() == admission.Update && len(now.Spec.Tunnels) < len(before.Spec.Tunnels) &&
		!slices.ContainsFunc(now.Spec.Tunnels, isNew)
	switch {
	case a.GetOperation() == admission.Update && !apiequality.Semantic.DeepEqual(now.Spec, tunnels):
		return forbidden(a, "the spec of a cluster credential can't be changed")
	case isHub(a.GetUserInfo()), endsTunnels:
		return nil
	case a.GetSubresource() != "status":
		return forbidden(a, "cluster credentials are written by the hub only; create an AccessRequest")
	}
	if err := checkAnswer(&now.Status); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// checkAnswer checks the size and shape of an agent's answer.
func checkAnswer(s *v1alpha1.ClusterCredentialStatus) error {
	for _, c := range s.Conditions {
		switch {
		case c.Type != muster.ConditionIssued && c.Type != muster.ConditionFailed:
			return fmt.Errorf("status.conditions: an agent sets %s and %s only, not %q", muster.ConditionIssued, muster.ConditionFailed, c.Type)
		case len(c.Message) > limits.AccessMessage:
			return fmt.Errorf("status.conditions: the message of %s has %d bytes, and may have %d",
				c.Type, len(c.Message), limits.AccessMessage)
		}
	}
	for field, size := range map[string]int{"certificate": len(s.Certificate), "sealedToken": len(s.SealedToken)} {
		if size > maxIssued {
			return fmt.Errorf("status.%s has %d bytes, and may have %d", field, size, maxIssued)
		}
	}
	return nil
}
