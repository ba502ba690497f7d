// Package csr approves the certificate requests of agents.
package csr

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/authorization"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// What upstream's controller calls the two kinds of approvals in its log.
const (
	eventRenewed = "ManagedClusterCSRAutoApproved"
	eventFirst   = "ManagedClusterAutoApproved"
)

// Controller approves certificate requests. It never denies one: what it does
// not approve waits for an administrator.
type Controller struct {
	client client.Client
	// live reads from the server.
	live client.Reader
	// tokens reads the Secrets of bootstrap tokens, from the cache.
	tokens client.Reader
	events events.EventRecorder
	clock  clock.PassiveClock

	// approvedUsers are users whose first requests are approved.
	approvedUsers []string
}

// Options say which requests are approved.
type Options struct {
	// ApprovedUsers are the user names, compared as a whole, whose first requests
	// are approved without a human.
	ApprovedUsers []string
}

// NewController makes the controller. live reads past the cache, and tokens the Secrets
// of bootstrap tokens, for which a cache will do.
func NewController(c client.Client, live, tokens client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, o Options) *Controller {
	return &Controller{client: c, live: live, tokens: tokens, events: recorder, clock: clk, approvedUsers: o.ApprovedUsers}
}

// undecidedOf indexes the requests that are not decided by their cluster. They are few,
// and a fleet that has just joined has a decided one for each cluster.
const undecidedOf = "undecidedOf"

func clusterOfUndecided(o client.Object) []string {
	r, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok || decided(r) || r.Labels[cluster.NameLabel] == "" {
		return nil
	}
	return []string{r.Labels[cluster.NameLabel]}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	requests := &certificatesv1.CertificateSigningRequest{}
	if err := m.GetFieldIndexer().IndexField(context.Background(), requests, undecidedOf, clusterOfUndecided); err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).
		Named("csr").
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(watch.When(concerned))).
		// A request that came before its cluster was accepted is judged again then.
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.requestsOf),
			builder.WithPredicates(watch.Appears(), watch.Changed(wasAccepted))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.requestsOfToken),
			builder.WithPredicates(watch.Appears(), watch.When(permits), watch.Changed(permitsAnother))).
		Complete(patch.RetryConflicts(c))
}

// Reconcile approves a request that has the form of an agent's and comes from a
// user who may make it: the agent itself, when it renews its certificate; the
// holder of a token for this one cluster, while the cluster is accepted and has
// never joined, or the token was made for joining again; or one of the
// approved users.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	request := &certificatesv1.CertificateSigningRequest{}
	if err := c.client.Get(ctx, r.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if at, ok := letIn(request); ok {
		return reconcile.Result{}, c.follow(ctx, request, at)
	}
	if decided(request) || request.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return reconcile.Result{}, nil
	}
	identity, err := cluster.ParseRequest(request.Labels, request.Spec.SignerName, request.Spec.Request)
	if err != nil {
		c.refuse(request, err.Error())
		return reconcile.Result{}, nil
	}
	var approve bool
	var why string // that approve is false, when there is something to say
	event := eventRenewed
	bound, err := c.boundClusters(ctx, request, identity.Cluster)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("judge the certificate request %s: %w", request.Name, err)
	}
	switch {
	case request.Spec.Username == identity.CommonName:
		approve, why, err = c.mayRenew(ctx, request, identity)
	case len(bound) > 0:
		approve, why, err = c.mayJoin(ctx, request, bound, identity)
		event = eventFirst
	case strings.HasPrefix(request.Spec.Username, cluster.UserPrefix):
		why = fmt.Sprintf("user %q asks for a certificate of %q: agents renew only their own", request.Spec.Username, identity.CommonName)
	case slices.Contains(c.approvedUsers, request.Spec.Username):
		approve, err = true, c.takeOver(ctx, request, identity)
		event = eventFirst
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("judge the certificate request %s: %w", request.Name, err)
	}
	if !approve {
		if why != "" {
			c.refuse(request, why)
		}
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, c.approve(ctx, request, identity, event)
}

// mayRenew asks whether the agent may still renew its certificate: a denied
// cluster's may not, and none whose place another one has taken.
func (c *Controller) mayRenew(ctx context.Context, request *certificatesv1.CertificateSigningRequest, identity cluster.RequestIdentity) (bool, string, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: identity.Cluster}, mc); client.IgnoreNotFound(err) != nil {
		return false, "", err
	}
	if cluster.Replaced(mc.Annotations, identity.Agent) {
		return false, cluster.Replacement(mc.Annotations[cluster.AgentAnnotation], identity.Agent, mc.Name), nil
	}
	extra := map[string][]string{}
	for k, v := range request.Spec.Extra {
		extra[k] = v
	}
	who := &user.DefaultInfo{Name: request.Spec.Username, UID: request.Spec.UID, Groups: request.Spec.Groups, Extra: extra}
	allowed, _, err := authorization.Allowed(ctx, c.client, who, authorizationv1.ResourceAttributes{
		Group: cluster.RegisterGroupName, Resource: "managedclusters", Subresource: "clientcertificates", Verb: "renew",
	})
	if err != nil {
		return false, "", err
	}
	if !allowed {
		return false, fmt.Sprintf("user %q may not renew its certificate: it needs the verb renew on managedclusters/clientcertificates in %s, which an accepted cluster has", request.Spec.Username, cluster.RegisterGroupName), nil
	}
	return true, "", nil
}

// mayJoin decides about the first request with a token for certain clusters. A
// permission to join again is spent when it returns true.
func (c *Controller) mayJoin(ctx context.Context, request *certificatesv1.CertificateSigningRequest, bound []string, identity cluster.RequestIdentity) (bool, string, error) {
	name := identity.Cluster
	if !slices.Contains(bound, name) {
		return false, fmt.Sprintf("the bootstrap token is bound to %q and the request is for %q", bound, name), nil
	}
	mc, err := c.clusterToJoin(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return false, fmt.Sprintf("the ManagedCluster %q does not exist: create it, and accept it", name), nil
	case err != nil:
		return false, "", err
	case !mc.DeletionTimestamp.IsZero():
		return false, fmt.Sprintf("the ManagedCluster %q is being deleted", name), nil
	case !mc.Spec.AcceptsClient():
		return false, fmt.Sprintf("the ManagedCluster %q is not accepted: set its spec.hubAcceptsClient to true, and the request is approved", name), nil
	}
	secret, err := c.tokenOf(ctx, request)
	switch {
	case err != nil:
		return false, "", err
	case secret != nil && mayRejoin(secret, name, request.UID):
		if err := c.spend(ctx, secret, name, request.UID); err != nil {
			return false, "", err
		}
		return true, "", c.install(ctx, mc, identity.Agent, request.CreationTimestamp.Time, c.clock.Now())
	case mc.HasAgent():
		return false, fmt.Sprintf("the cluster %q has joined before: if it is to join again, approve the request with \"kubectl certificate approve %s\", or use a token that \"muster rejoin %s\" makes",
			name, request.Name, name), nil
	}
	return true, "", c.replaceEarlier(ctx, mc, request, identity.Agent, c.clock.Now())
}

// clusterToJoin reads the cluster of a first request. Whether it has an agent already
// decides about letting another one in, so that is read from the server. The cache also
// learns a moment late that the cluster is there, and the event that says it is not
// would hide those that follow: they differ in their notes alone.
func (c *Controller) clusterToJoin(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	mc := &clusterv1.ManagedCluster{}
	err := c.client.Get(ctx, types.NamespacedName{Name: name}, mc)
	if apierrors.IsNotFound(err) || err == nil && !mc.HasAgent() {
		mc = &clusterv1.ManagedCluster{}
		err = c.live.Get(ctx, types.NamespacedName{Name: name}, mc)
	}
	return mc, err
}

// takeOver installs the agent of a request that is about to be approved, if its
// cluster has another one.
func (c *Controller) takeOver(ctx context.Context, request *certificatesv1.CertificateSigningRequest, identity cluster.RequestIdentity) error {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: identity.Cluster}, mc); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !mc.HasAgent() {
		return c.replaceEarlier(ctx, mc, request, identity.Agent, c.clock.Now())
	}
	return c.install(ctx, mc, identity.Agent, request.CreationTimestamp.Time, c.clock.Now())
}

// refuse explains why a request is not approved. It stays pending: an
// administrator may still decide otherwise.
func (c *Controller) refuse(request *certificatesv1.CertificateSigningRequest, why string) {
	c.events.Eventf(request, nil, corev1.EventTypeWarning, "CertificateRequestNotApproved", "Approve", "%s", why)
}

func (c *Controller) approve(ctx context.Context, request *certificatesv1.CertificateSigningRequest, identity cluster.RequestIdentity, event string) error {
	request = request.DeepCopy()
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: cluster.ReasonCSRAutoApproved, Message: cluster.MessageCSRAutoApproved,
	})
	if err := c.client.SubResource("approval").Update(ctx, request); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("approve the certificate request %s: %w", request.Name, err)
	}
	log.FromContext(ctx).Info("certificate request approved", "event", event, "request", request.Name, "cluster", identity.Cluster, "agent", identity.Agent, "requester", request.Spec.Username)
	return nil
}

// concerned selects requests that nobody has decided about, and those of agents
// that an administrator has let in.
func concerned(r *certificatesv1.CertificateSigningRequest) bool {
	_, byOthers := letIn(r)
	return r.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName && (!decided(r) || byOthers)
}

func decided(r *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	})
}

func wasAccepted(was, is *clusterv1.ManagedCluster) bool {
	return is.Spec.AcceptsClient() && (!was.Spec.AcceptsClient() ||
		was.Annotations[muster.ClientIDAnnotation] != is.Annotations[muster.ClientIDAnnotation])
}

// permits selects the Secrets of tokens that let a cluster join again, and of those
// that are for certain client IDs.
func permits(s *corev1.Secret) bool {
	return s.Annotations[cluster.RejoinAnnotation] != "" || s.Annotations[cluster.TokenClientIDsAnnotation] != ""
}

func permitsAnother(was, is *corev1.Secret) bool {
	for _, key := range []string{cluster.RejoinAnnotation, cluster.TokenClientIDsAnnotation, cluster.TokenUsedByAnnotation} {
		if was.Annotations[key] != is.Annotations[key] {
			return true
		}
	}
	return false
}

// requestsOf are the undecided requests of a ManagedCluster.
func (c *Controller) requestsOf(ctx context.Context, mc client.Object) []reconcile.Request {
	return c.undecided(ctx, mc.GetName())
}

// requestsOfToken are the undecided requests of the cluster that a token's Secret
// lets join again, and of those that have registered with a token for certain
// client IDs.
func (c *Controller) requestsOfToken(ctx context.Context, secret client.Object) []reconcile.Request {
	annotations := secret.GetAnnotations()
	out := c.undecided(ctx, annotations[cluster.RejoinAnnotation])
	if annotations[cluster.TokenClientIDsAnnotation] == "" {
		return out
	}
	scope, err := cluster.ParseTokenScope(annotations)
	if err != nil {
		return out
	}
	for _, name := range scope.UsedBy {
		out = append(out, c.undecided(ctx, name)...)
	}
	return out
}

// undecided are the undecided requests of the cluster of this name.
func (c *Controller) undecided(ctx context.Context, name string) []reconcile.Request {
	return watch.Matching[client.Object](ctx, c.client, &certificatesv1.CertificateSigningRequestList{}, nil,
		client.MatchingFields{undecidedOf: name})
}
