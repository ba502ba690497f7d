// Package clientid answers the registrations of agents that know their client ID
// and not their cluster's name: it finds the cluster or creates it, and removes
// what is left of registrations that are over.
package clientid

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

const (
	// settling is how old a registration has to be before a cluster is created for
	// it: one that somebody has just prepared may not be in the cache yet.
	settling = time.Second
	// KeepAnswered is how long an answered registration stays for its agent to read.
	KeepAnswered = 5 * time.Minute
	// KeepRefused is how long a refused registration stays for people to see. An agent
	// that still wants in creates it again.
	KeepRefused = 15 * time.Minute
)

// Controller reconciles ClusterRegistrations.
type Controller struct {
	client client.Client
	// cached and live read bootstrap tokens: from the cache, and past it.
	cached client.Reader
	live   client.Reader
	events events.EventRecorder
	clock  clock.PassiveClock
}

// NewController makes the controller. cached reads the Secrets of bootstrap tokens
// from the cache, live reads past it.
func NewController(c client.Client, cached, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, cached: cached, live: live, events: recorder, clock: clk}
}

// Reconcile answers a registration, and deletes it when nobody needs the answer any
// more. A refused one is judged again when a cluster or the token changes.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	registration := &musterv1alpha1.ClusterRegistration{}
	if err := c.client.Get(ctx, r.NamespacedName, registration); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !registration.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	useful, err := c.usefulFor(ctx, registration)
	if err != nil {
		return reconcile.Result{}, err
	}
	if useful <= 0 {
		err := c.client.Delete(ctx, registration, client.Preconditions{UID: &registration.UID})
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if meta.IsStatusConditionTrue(registration.Status.Conditions, muster.ConditionRegistered) {
		return reconcile.Result{RequeueAfter: useful}, nil
	}
	q, err := c.ask(ctx, registration)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("look up what the registration %s is for: %w", registration.Name, err)
	}
	a := decide(q)
	if left := settling - c.clock.Since(registration.CreationTimestamp.Time); a.create && left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := c.carryOut(ctx, q, a); err != nil {
		return reconcile.Result{}, fmt.Errorf("register the cluster of the client ID %s: %w", q.clientID(), err)
	}
	return reconcile.Result{RequeueAfter: useful}, c.report(ctx, registration, a)
}

// usefulFor is how much longer somebody may need a registration; 0 or less when
// nobody does.
func (c *Controller) usefulFor(ctx context.Context, r *musterv1alpha1.ClusterRegistration) (time.Duration, error) {
	answered := meta.FindStatusCondition(r.Status.Conditions, muster.ConditionRegistered)
	if answered == nil || answered.Status != metav1.ConditionTrue {
		return KeepRefused - c.clock.Since(r.CreationTimestamp.Time), nil
	}
	mc := &clusterv1.ManagedCluster{}
	switch err := c.live.Get(ctx, types.NamespacedName{Name: r.Status.ClusterName}, mc); {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("look up the cluster of the registration %s: %w", r.Name, err)
	}
	return KeepAnswered - c.clock.Since(answered.LastTransitionTime.Time), nil
}

// ask collects what the answer depends on.
func (c *Controller) ask(ctx context.Context, r *musterv1alpha1.ClusterRegistration) (question, error) {
	q := question{registration: r, now: c.clock.Now()}
	var err error
	if q.token, err = c.tokenOf(ctx, r.Spec.Token); err != nil {
		return q, err
	}
	list := &clusterv1.ManagedClusterList{}
	if err := c.client.List(ctx, list, client.MatchingFields{byClientID: r.Spec.ClientID}); err != nil {
		return q, err
	}
	for i := range list.Items {
		q.named = append(q.named, &list.Items[i])
	}
	slices.SortFunc(q.named, func(a, b *clusterv1.ManagedCluster) int { return strings.Compare(a.Name, b.Name) })
	if q.derived, err = c.cluster(ctx, muster.DerivedClusterName(r.Spec.ClientID)); err != nil {
		return q, err
	}
	if q.token != nil && len(q.token.bound) == 1 {
		q.bound, err = c.cluster(ctx, q.token.bound[0])
	}
	return q, err
}

// cluster reads a cluster; nil when there is none.
func (c *Controller) cluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	return apply.Read(ctx, c.client, types.NamespacedName{Name: name}, &clusterv1.ManagedCluster{})
}

// secretOf is the Secret of a bootstrap token; nil when there is none.
func (c *Controller) secretOf(ctx context.Context, id string) (*corev1.Secret, error) {
	key := types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + id}
	// The cache may not show yet a token that was made a moment ago.
	for _, reader := range []client.Reader{c.cached, c.live} {
		secret := &corev1.Secret{}
		err := reader.Get(ctx, key, secret)
		if err == nil && secret.DeletionTimestamp.IsZero() {
			return secret, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	return nil, nil
}

// tokenOf reads what a bootstrap token allows; nil when there is none.
func (c *Controller) tokenOf(ctx context.Context, id string) (*token, error) {
	if id == "" {
		return nil, nil
	}
	secret, err := c.secretOf(ctx, id)
	if secret == nil || err != nil {
		return nil, err
	}
	t := &token{
		id: id, rejoin: secret.Annotations[cluster.RejoinAnnotation], rejoinUID: secret.Annotations[cluster.RejoinUIDAnnotation],
		bound: cluster.BoundClusters(strings.Split(string(secret.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]), ",")),
	}
	t.scope, t.problem = cluster.ParseTokenScope(secret.Annotations)
	if text := string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey]); text != "" {
		expires, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.problem = fmt.Errorf("its expiration %q is no time of the form that RFC 3339 describes", text)
		}
		t.expires = expires
	}
	return t, nil
}

// report writes the answer into the registration. What is news is reported by events.
func (c *Controller) report(ctx context.Context, r *musterv1alpha1.ClusterRegistration, a answer) error {
	verdict := metav1.Condition{Type: muster.ConditionRegistered, Status: metav1.ConditionTrue, Reason: a.reason, Message: a.message}
	if a.name == "" {
		verdict.Status = metav1.ConditionFalse
	}
	verdict.LastTransitionTime = metav1.Time{Time: c.clock.Now()}
	written, err := patch.Status(ctx, c.client, r, func() bool {
		changed := meta.SetStatusCondition(&r.Status.Conditions, verdict)
		changed = changed || r.Status.ClusterName != a.name
		r.Status.ClusterName = a.name
		return changed
	})
	if err != nil {
		return fmt.Errorf("answer the registration %s: %w", r.Name, err)
	}
	if !written {
		return nil
	}
	kind, who := corev1.EventTypeNormal, r.Annotations[muster.RequesterAnnotation]
	if a.name == "" {
		kind = corev1.EventTypeWarning
	}
	c.events.Eventf(r, nil, kind, a.reason, "Register", "%s", a.message)
	for _, mc := range a.warned {
		c.events.Eventf(mc, r, kind, a.reason, "Register", "user %q wants to register a cluster whose kube-system has the UID %s by the client ID %s: %s",
			who, r.Spec.ClusterUID, r.Spec.ClientID, a.message)
	}
	log.FromContext(ctx).Info("a registration by a client ID was answered", "registration", r.Name, "clientID", r.Spec.ClientID,
		"clusterUID", r.Spec.ClusterUID, "requester", who, "reason", a.reason, "cluster", a.name)
	return nil
}

// byClientID indexes ManagedClusters by their client ID.
const byClientID = "clientID"

func clientIDOf(o client.Object) []string {
	if id := o.GetAnnotations()[muster.ClientIDAnnotation]; id != "" {
		return []string{id}
	}
	return nil
}

// Register adds the controller, and the one of left-over clusters, to a manager.
func (c *Controller) Register(m manager.Manager) error {
	if err := m.GetFieldIndexer().IndexField(context.Background(), &clusterv1.ManagedCluster{}, byClientID, clientIDOf); err != nil {
		return err
	}
	unanswered := func(matches func(*musterv1alpha1.ClusterRegistration, client.Object) bool) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return watch.Matching(ctx, c.client, &musterv1alpha1.ClusterRegistrationList{}, func(r *musterv1alpha1.ClusterRegistration) bool {
				return matches(r, o)
			})
		})
	}
	err := builder.ControllerManagedBy(m).
		Named("cluster-registration").
		For(&musterv1alpha1.ClusterRegistration{}, builder.WithPredicates(watch.Appears())).
		Watches(&clusterv1.ManagedCluster{}, unanswered(c.concerns), builder.WithPredicates(watch.Changed(judgedAgain))).
		Watches(&corev1.Secret{}, unanswered(madeWith), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Complete(patch.RetryConflicts(c))
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).
		Named("cluster-registration-leftovers").
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(watch.When(isRegistered))).
		Watches(&certificatesv1.CertificateSigningRequest{}, watch.ValueOfLabel(cluster.NameLabel),
			builder.WithPredicates(watch.Appears())).
		Complete(patch.RetryConflicts(NewLeftovers(c.client, c.live, c.clock)))
}

// judgedAgain reports whether the change of a cluster may change answers.
func judgedAgain(was, is *clusterv1.ManagedCluster) bool {
	return was.Annotations[muster.ClientIDAnnotation] != is.Annotations[muster.ClientIDAnnotation] ||
		was.Annotations[muster.ClusterUIDAnnotation] != is.Annotations[muster.ClusterUIDAnnotation] ||
		was.Labels[muster.RegistrationLabel] != is.Labels[muster.RegistrationLabel] ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || was.HasAgent() != is.HasAgent()
}

// concerns reports whether the answer to a registration may depend on a cluster. A
// cluster that has lost its client ID may be another one's only rival.
func (c *Controller) concerns(r *musterv1alpha1.ClusterRegistration, mc client.Object) bool {
	if meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionRegistered) {
		return r.Status.ClusterName == mc.GetName()
	}
	return true
}

// madeWith reports whether a registration was made with the token in a Secret, and
// has no final answer yet.
func madeWith(r *musterv1alpha1.ClusterRegistration, secret client.Object) bool {
	return r.Spec.Token != "" && secret.GetName() == cluster.TokenSecretPrefix+r.Spec.Token &&
		!meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionRegistered)
}

// isRegistered reports whether a cluster was created for a registration.
func isRegistered(mc *clusterv1.ManagedCluster) bool {
	return mc.Labels[muster.RegistrationLabel] != ""
}

// carryOut does what an answer says, before the agent learns of it. It can be
// repeated after each step.
func (c *Controller) carryOut(ctx context.Context, q question, a answer) error {
	if a.name == "" {
		return nil
	}
	if err := c.use(ctx, q, a); err != nil {
		return err
	}
	if a.create {
		return c.create(ctx, q, a)
	}
	return c.adopt(ctx, q, a)
}

// use notes in the token's Secret that it registers the cluster, and which cluster
// joins again by it. It is a conflict when the Secret has changed since the
// decision.
func (c *Controller) use(ctx context.Context, q question, a answer) error {
	if q.token == nil {
		return nil
	}
	secret, err := c.secretOf(ctx, q.token.id)
	if err != nil || secret == nil {
		return errors.Join(err, errGone(secret, q.token.id))
	}
	scope, err := cluster.ParseTokenScope(secret.Annotations)
	if err != nil {
		return err
	}
	news, ok := scope.Use(a.name)
	if !ok {
		return apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it was used for other clusters meanwhile"))
	}
	joins := a.replaces && secret.Annotations[cluster.RejoinUIDAnnotation] == ""
	if !news && !joins {
		return nil
	}
	secret = secret.DeepCopy()
	written, err := patch.Object(ctx, c.client, secret, func() bool {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, cluster.TokenUsedByAnnotation, strings.Join(scope.UsedBy, ","))
		if joins {
			metav1.SetMetaDataAnnotation(&secret.ObjectMeta, cluster.RejoinUIDAnnotation, q.registration.Spec.ClusterUID)
		}
		return true
	})
	if err == nil && !written {
		return errGone(nil, q.token.id)
	}
	return err
}

// errGone has a registration judged again whose token is gone since the decision.
func errGone(secret *corev1.Secret, id string) error {
	if secret != nil {
		return nil
	}
	return apierrors.NewConflict(corev1.Resource("secrets"), cluster.TokenSecretPrefix+id, errors.New("it was deleted meanwhile"))
}

// create creates the cluster of a registration, not accepted, with the token's
// labels and those that it lets the agent choose.
func (c *Controller) create(ctx context.Context, q question, a answer) error {
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.name, Labels: maps.Clone(a.labels),
			Annotations: map[string]string{
				muster.ClientIDAnnotation:   q.clientID(),
				muster.ClusterUIDAnnotation: q.registration.Spec.ClusterUID,
			},
		},
		Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(false)},
	}
	if mc.Labels == nil {
		mc.Labels = map[string]string{}
	}
	if q.token != nil {
		maps.Copy(mc.Labels, q.token.scope.Labels)
		mc.Labels[cluster.TokenLabel] = q.token.id
	}
	mc.Labels[muster.RegistrationLabel] = q.registration.Name
	err := c.client.Create(ctx, mc)
	if apierrors.IsAlreadyExists(err) {
		// The cache does not show it yet. It is judged again when it does.
		return apierrors.NewConflict(clustersResource(), a.name, err)
	}
	return err
}

// adopt notes in a cluster that is there by which client ID and UID it registers.
func (c *Controller) adopt(ctx context.Context, q question, a answer) error {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: a.name}, mc); err != nil {
		return err
	}
	seen := append(slices.Clone(q.named), q.bound)
	if !slices.ContainsFunc(seen, func(s *clusterv1.ManagedCluster) bool { return s != nil && s.ResourceVersion == mc.ResourceVersion }) {
		return apierrors.NewConflict(clustersResource(), a.name, errors.New("it has changed meanwhile"))
	}
	want := map[string]string{muster.ClientIDAnnotation: q.clientID(), muster.ClusterUIDAnnotation: q.registration.Spec.ClusterUID}
	mc = mc.DeepCopy()
	written, err := patch.Object(ctx, c.client, mc, func() bool {
		changed := false
		for k, v := range want {
			if mc.Annotations[k] != v {
				metav1.SetMetaDataAnnotation(&mc.ObjectMeta, k, v)
				changed = true
			}
		}
		return changed
	})
	if err != nil {
		return fmt.Errorf("note the client ID in the cluster %s: %w", a.name, err)
	}
	if written {
		c.events.Eventf(mc, q.registration, corev1.EventTypeNormal, muster.ReasonRegistered, "Register",
			"the cluster whose kube-system has the UID %s registers by the client ID %s", q.registration.Spec.ClusterUID, q.clientID())
	}
	return nil
}

func clustersResource() schema.GroupResource {
	return schema.GroupResource{Group: cluster.GroupName, Resource: "managedclusters"}
}
