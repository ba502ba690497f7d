package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
)

// accessRequests completes and checks AccessRequests: who asks, for which user, by which
// key and for how long. Whether the user is granted anything is the controller's
// to find out, as that changes.
type accessRequests struct {
	access
	namespaces
	accessRefusals
	clock  clock.PassiveClock
	client dynamic.Interface
	// recent are the requests that the server's answers may not show yet.
	recent budget.Recent[recentAccess]
}

var (
	_ admission.MutationInterface                  = &accessRequests{}
	_ admission.ValidationInterface                = &accessRequests{}
	_ initializer.WantsExternalKubeInformerFactory = &accessRequests{}
	_ initializer.WantsExternalKubeClientSet       = &accessRequests{}
	_ initializer.WantsDynamicClient               = &accessRequests{}
)

// SetDynamicClient is called by the API server before it serves.
func (p *accessRequests) SetDynamicClient(c dynamic.Interface) { p.client = c }

// ValidateInitialization fails the server's start when something is missing.
func (p *accessRequests) ValidateInitialization() error {
	if p.client == nil || p.lister == nil || p.events == nil {
		return errors.New("no clients were given")
	}
	return p.access.ValidateInitialization()
}

func (*accessRequests) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// isHub reports whether a request is by the hub's own controllers, or by an
// administrator, which they are as well.
func isHub(u user.Info) bool { return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) }

// Admit says in a new request who made it, and fills in what it leaves out. The
// finalizer is the controller's; here it costs no write.
func (p *accessRequests) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "accessrequests") || a.GetOperation() != admission.Create {
		return nil
	}
	var r v1alpha1.AccessRequest
	if err := decode(a.GetObject(), &r); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the AccessRequest cannot be read: %v", err))
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
func (p *accessRequests) cloud(ctx context.Context, namespace, name string) (*v1alpha1.LogicalCloud, error) {
	object, err := p.client.Resource(v1alpha1.GroupVersion.WithResource("logicalclouds")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	cloud := &v1alpha1.LogicalCloud{}
	return cloud, decode(object, cloud)
}

// Validate checks a new request, and who writes to an existing one.
func (p *accessRequests) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource()
	if resource.Group != muster.GroupName || resource.Resource != "accessrequests" {
		return nil
	}
	var now, before v1alpha1.AccessRequest
	if err := errors.Join(decode(a.GetObject(), &now), decode(a.GetOldObject(), &before)); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the AccessRequest cannot be read: %v", err))
	}
	if now.Labels[muster.HubMadeLabel] != before.Labels[muster.HubMadeLabel] && !isHub(a.GetUserInfo()) {
		return apierrors.NewForbidden(resource.GroupResource(), a.GetName(), fmt.Errorf("the label %s is the hub's: leave it as it is", muster.HubMadeLabel))
	}
	if a.GetSubresource() == "" && a.GetOperation() == admission.Create {
		return p.create(ctx, a, &now)
	}
	switch {
	case !apiequality.Semantic.DeepEqual(now.Spec, before.Spec):
		return apierrors.NewForbidden(resource.GroupResource(), a.GetName(), errors.New("the spec of an access request can't be changed: create another one"))
	case isHub(a.GetUserInfo()):
		return nil
	case a.GetSubresource() != "":
		return apierrors.NewForbidden(resource.GroupResource(), a.GetName(), errors.New("the status of an access request is written by the hub only"))
	case slices.Contains(before.Finalizers, muster.AccessFinalizer) && !slices.Contains(now.Finalizers, muster.AccessFinalizer):
		return apierrors.NewForbidden(resource.GroupResource(), a.GetName(),
			fmt.Errorf("the finalizer %s is removed by the hub, once the rights are withdrawn in the cluster", muster.AccessFinalizer))
	}
	return nil
}

// create checks a new request, and leaves a trace of it in the audit log. That of
// a refusal is an event, too.
func (p *accessRequests) create(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest) error {
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
func (p *accessRequests) check(ctx context.Context, a admission.Attributes, r *v1alpha1.AccessRequest) (_ *v1alpha1.LogicalCloud, keyHash string, _ error) {
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
func (p *accessRequests) hubID() (string, error) {
	system, err := p.lister.Get(metav1.NamespaceSystem)
	if err != nil {
		return "", fmt.Errorf("the hub does not know its ID yet, try again: %w", err)
	}
	return useraccess.HubID(string(system.UID)), nil
}
