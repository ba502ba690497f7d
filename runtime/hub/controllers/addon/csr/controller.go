// Package csr approves the certificate requests of add-ons from templates, and signs
// those for the templates' own signers. It never denies one: what it does not approve
// waits for an administrator. Add-ons with managers of their own are left to these.
package csr

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// retryAfter is when to try again to sign. The Secrets of authorities, and the rights
// to them, are not watched: a hub that did would hold every Secret in memory.
const retryAfter = 30 * time.Second

// Controller reconciles the certificate requests of add-ons.
type Controller struct {
	client client.Client
	// requests reads certificate requests, objects configuration objects.
	requests, objects client.Reader
	// as is who reads the Secrets of authorities.
	as     addons.Manager
	events events.EventRecorder
	clock  clock.PassiveClock
}

// NewController makes the controller. objects reads objects without Go types, live past
// the cache.
func NewController(c client.Client, objects, live client.Reader, as addons.Manager, recorder events.EventRecorder, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, requests: live, objects: objects, as: as, events: recorder, clock: clk}
}

// Reconcile approves a request that the agent of a cluster makes for an add-on from a
// template, with the subject that the add-on's agent is to have, and signs it when the
// template names the authority.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	request := &certificatesv1.CertificateSigningRequest{}
	if err := c.requests.Get(ctx, r.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !wire.IsRequest(request) || !open(request) {
		return reconcile.Result{}, nil
	}
	a, t, err := c.of(ctx, request)
	if err != nil || t == nil {
		return reconcile.Result{}, err
	}
	at := slices.IndexFunc(t.Spec.Registration, func(r v1alpha1.RegistrationSpec) bool { return signerOf(r) == request.Spec.SignerName })
	if at < 0 {
		c.refuse(request, fmt.Sprintf("the AddOnTemplate %s has no registration for the signer %s", t.Name, request.Spec.SignerName))
		return reconcile.Result{}, nil
	}
	rule := t.Spec.Registration[at]
	if !is(request, certificatesv1.CertificateApproved) {
		why, err := c.judge(ctx, request, a, rule)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("judge the certificate request %s: %w", request.Name, err)
		}
		if why != nil {
			c.refuse(request, why.Error())
			return reconcile.Result{}, nil
		}
		if request, err = c.approve(ctx, request); err != nil || request == nil {
			return reconcile.Result{}, err
		}
	}
	if rule.Type != v1alpha1.RegistrationTypeCustomSigner || wire.ReservedSigner(request.Spec.SignerName) {
		return reconcile.Result{}, nil // the hub's own signer follows
	}
	return c.sign(ctx, request, a, rule.CustomSigner.SigningCA)
}

// open reports whether something is left to do for a request.
func open(r *certificatesv1.CertificateSigningRequest) bool {
	return len(r.Status.Certificate) == 0 && !is(r, certificatesv1.CertificateDenied) && !is(r, certificatesv1.CertificateFailed)
}

func is(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
}

// signerOf is the signer of a registration, "" for one that has none.
func signerOf(r v1alpha1.RegistrationSpec) string {
	switch {
	case r.Type == v1alpha1.RegistrationTypeKubeClient:
		return addon.KubeClientSigner
	case r.Type == v1alpha1.RegistrationTypeCustomSigner && r.CustomSigner != nil && !wire.ReservedSigner(r.CustomSigner.SignerName):
		return r.CustomSigner.SignerName
	}
	return ""
}

// of are the add-on that a request is for, and its template; nil when it has none. The
// template is that of today, also while a rollout has not reached the cluster: its
// agent's certificates have to be renewed meanwhile.
func (c *Controller) of(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (*v1alpha1.ManagedClusterAddOn, *v1alpha1.AddOnTemplate, error) {
	key := types.NamespacedName{Namespace: r.Labels[cluster.NameLabel], Name: r.Labels[cluster.AddOnNameLabel]}
	a := &v1alpha1.ManagedClusterAddOn{}
	if err := c.client.Get(ctx, key, a); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	definition, err := addons.Definition(ctx, c.client, a.Name)
	if err != nil || definition == nil || !configs.FromTemplate(definition) {
		return nil, nil, err
	}
	source, missing, err := addons.TemplateOf(ctx, c.objects, a)
	if err != nil || source == nil {
		if missing != "" {
			c.refuse(r, missing)
		}
		return nil, nil, err
	}
	return a, source.Template, nil
}

// judge says why a request is not approved, in words, or nothing.
func (c *Controller) judge(ctx context.Context, r *certificatesv1.CertificateSigningRequest, a *v1alpha1.ManagedClusterAddOn, rule v1alpha1.RegistrationSpec) (why, err error) {
	r = onBehalf(r)
	if rule.Type == v1alpha1.RegistrationTypeKubeClient {
		why = wire.CheckRequest(r, a.Name, wire.TemplateAgent(a.Name))
	} else {
		why = wire.CheckSigned(r, subjects(a, r.Spec.SignerName)...)
	}
	if why != nil {
		return why, nil
	}
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: a.Namespace}, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the ManagedCluster %q does not exist", a.Namespace), nil
		}
		return nil, err
	}
	_, agent, _ := cluster.ParseCommonName(r.Spec.Username)
	switch {
	case !mc.Spec.AcceptsClient():
		return fmt.Errorf("the ManagedCluster %q is not accepted", mc.Name), nil
	case cluster.Replaced(mc.Annotations, agent):
		return errors.New(cluster.Replacement(mc.Annotations[cluster.AgentAnnotation], agent, mc.Name)), nil
	}
	return nil, nil
}

// onBehalf is a request as an agent made it: upstream's gRPC server creates requests for
// agents, and names them. Nobody else's word counts for another user.
func onBehalf(r *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	if r.Spec.Username != wire.GRPCServer {
		return r
	}
	out := r.DeepCopy()
	out.Spec.Username = r.Annotations[wire.RequesterAnnotation]
	return out
}

// subjects are those that the agent of an add-on may have in certificates of a signer.
func subjects(a *v1alpha1.ManagedClusterAddOn, signer string) (out []pkix.Name) {
	for _, r := range a.Status.Registrations {
		if r.SignerName != signer {
			continue
		}
		s := pkix.Name{CommonName: r.Subject.User, Organization: r.Subject.Groups, OrganizationalUnit: r.Subject.OrganizationUnits}
		if s.CommonName == "" {
			s.CommonName = wire.User(a.Namespace, a.Name, a.Name) // as agents fill it in
		}
		out = append(out, s)
	}
	return out
}

// approve approves a request. It returns the request as it is then, nil when it is
// gone.
func (c *Controller) approve(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	r = r.DeepCopy()
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: cluster.ReasonCSRAutoApproved, Message: wire.MessageApproved,
	})
	if err := c.client.SubResource("approval").Update(ctx, r); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("approve the certificate request %s: %w", r.Name, err)
	}
	log.FromContext(ctx).Info("certificate request of an add-on approved", "request", r.Name, "signer", r.Spec.SignerName, "requester", r.Spec.Username)
	return r, nil
}

// sign signs an approved request with the authority in a Secret. What keeps it from
// that is reported, and tried again.
func (c *Controller) sign(ctx context.Context, r *certificatesv1.CertificateSigningRequest, a *v1alpha1.ManagedClusterAddOn, ca v1alpha1.SigningCARef) (reconcile.Result, error) {
	key := types.NamespacedName{Namespace: ca.Namespace, Name: ca.Name}
	if key.Namespace == "" {
		key.Namespace = cluster.HubNamespace
	}
	certificate, err := c.certificate(ctx, r, key)
	if err != nil {
		why := fmt.Sprintf("the certificate for the signer %s can't be signed with the Secret %s: %v", r.Spec.SignerName, key, err)
		c.events.Eventf(r, nil, corev1.EventTypeWarning, "CertificateRequestNotSigned", "Sign", "%s", why)
		c.events.Eventf(a, r, corev1.EventTypeWarning, "CertificateRequestNotSigned", "Sign", "%s", why)
		log.FromContext(ctx).Info("a certificate request of an add-on is not signed, trying again", "request", r.Name, "secret", key, "reason", err.Error())
		return reconcile.Result{RequeueAfter: retryAfter}, nil
	}
	r = r.DeepCopy()
	r.Status.Certificate = certificate
	err = client.IgnoreNotFound(c.client.SubResource("status").Update(ctx, r))
	return reconcile.Result{}, patch.Explain(err, "sign the certificate request %s", r.Name)
}

func (c *Controller) certificate(ctx context.Context, r *certificatesv1.CertificateSigningRequest, key types.NamespacedName) ([]byte, error) {
	secret := &corev1.Secret{}
	switch err := c.as.Plain.Get(ctx, key, secret); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("it does not exist: create it, with the keys %s and %s", corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("its owner has not allowed it: give the service account %s of the namespace %s the right to get this one Secret, by a Role and a RoleBinding in its namespace",
			addon.ManagerServiceAccount, cluster.HubNamespace)
	case err != nil:
		return nil, err
	}
	a, err := parseAuthority(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	return a.sign(r, c.clock.Now())
}

// refuse explains why a request is not approved.
func (c *Controller) refuse(r *certificatesv1.CertificateSigningRequest, why string) {
	c.events.Eventf(r, nil, corev1.EventTypeWarning, "CertificateRequestNotApproved", "Approve", "%s", why)
}

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	labelled, err := addons.NewCache(m, cluster.AddOnNameLabel, &certificatesv1.CertificateSigningRequest{})
	if err != nil {
		return err
	}
	c.requests = labelled
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(addons.KindOf(addon.TemplateResource)))
	return builder.ControllerManagedBy(m).
		Named("addon-csr").
		WatchesRawSource(source.Kind[client.Object](labelled, &certificatesv1.CertificateSigningRequest{},
			&handler.EnqueueRequestForObject{}, watch.When(open))).
		// A request that came too early is judged again.
		Watches(&v1alpha1.ManagedClusterAddOn{}, handler.EnqueueRequestsFromMapFunc(c.ofAddOn),
			builder.WithPredicates(watch.Appears(), watch.Changed(addOnChanged))).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(watch.Appears(), watch.Changed(wasAccepted))).
		Watches(template, handler.EnqueueRequestsFromMapFunc(c.ofTemplate), builder.WithPredicates(watch.Appears(), predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(patch.RetryConflicts(c))
}

func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return !apiequality.Semantic.DeepEqual(was.Status.Registrations, is.Status.Registrations) ||
		!apiequality.Semantic.DeepEqual(was.Status.ConfigReferences, is.Status.ConfigReferences)
}

func wasAccepted(was, is *clusterv1.ManagedCluster) bool {
	return is.Spec.AcceptsClient() && !was.Spec.AcceptsClient()
}

func (c *Controller) ofAddOn(ctx context.Context, o client.Object) []reconcile.Request {
	return c.openOnes(ctx, client.MatchingLabels{cluster.NameLabel: o.GetNamespace(), cluster.AddOnNameLabel: o.GetName()})
}

func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return c.openOnes(ctx, client.MatchingLabels{cluster.NameLabel: o.GetName()})
}

// ofTemplate are the requests of the add-ons that a template counts for.
func (c *Controller) ofTemplate(ctx context.Context, o client.Object) (out []reconcile.Request) {
	kind := v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: addon.TemplateResource}
	names := map[string]bool{}
	for _, r := range addons.ConfiguredWith(ctx, c.client, kind, client.ObjectKeyFromObject(o)) {
		if !names[r.Name] {
			names[r.Name] = true
			out = append(out, c.openOnes(ctx, client.MatchingLabels{cluster.AddOnNameLabel: r.Name})...)
		}
	}
	return out
}

func (c *Controller) openOnes(ctx context.Context, labels client.MatchingLabels) []reconcile.Request {
	return watch.Matching(ctx, c.requests, &certificatesv1.CertificateSigningRequestList{}, open, labels)
}
