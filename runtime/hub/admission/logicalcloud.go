package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// logicalClouds checks LogicalClouds: that they say nothing that clusters would
// refuse, and that who writes one may give what it gives. On updates only what has
// changed is checked, so that a cloud can be changed by those who may not grant
// what others have granted.
type logicalClouds struct {
	access
	client dynamic.Interface
}

var (
	_ admission.ValidationInterface  = &logicalClouds{}
	_ initializer.WantsDynamicClient = &logicalClouds{}
)

// SetDynamicClient is called by the API server before it serves.
func (p *logicalClouds) SetDynamicClient(c dynamic.Interface) { p.client = c }

// ValidateInitialization fails the server's start when something is missing.
func (p *logicalClouds) ValidateInitialization() error {
	if p.client == nil {
		return errors.New("no client was given")
	}
	return p.access.ValidateInitialization()
}

func (*logicalClouds) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate checks a cloud, or who writes its status.
func (p *logicalClouds) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r := a.GetResource()
	if r.Group != muster.GroupName || r.Resource != "logicalclouds" {
		return nil
	}
	var now, before v1alpha1.LogicalCloud
	if err := errors.Join(decode(a.GetObject(), &now), decode(a.GetOldObject(), &before)); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the LogicalCloud cannot be read: %v", err))
	}
	hub := isHub(a.GetUserInfo())
	switch {
	case a.GetSubresource() == "status" && !hub:
		return apierrors.NewForbidden(r.GroupResource(), a.GetName(), errors.New("the status of a logical cloud is written by the hub only"))
	case a.GetSubresource() != "":
		return nil
	case !hub && slices.Contains(before.Finalizers, muster.AccessFinalizer) && !slices.Contains(now.Finalizers, muster.AccessFinalizer):
		return apierrors.NewForbidden(r.GroupResource(), a.GetName(),
			fmt.Errorf("the finalizer %s is removed by the hub, once nothing of the cloud is left in clusters", muster.AccessFinalizer))
	case now.DeletionTimestamp != nil, a.GetOperation() == admission.Update && apiequality.Semantic.DeepEqual(now.Spec, before.Spec):
		return nil
	}
	if errs := checkCloud(&now.Spec, &before.Spec); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: muster.GroupName, Kind: "LogicalCloud"}, a.GetName(), errs)
	}
	g := granting{access: &p.access, client: p.client, who: a.GetUserInfo(), namespace: a.GetNamespace()}
	refusals, errs, err := g.check(ctx, &now.Spec, &before.Spec)
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case len(errs) > 0:
		return apierrors.NewInvalid(schema.GroupKind{Group: muster.GroupName, Kind: "LogicalCloud"}, a.GetName(), errs)
	case len(refusals) > 0:
		return apierrors.NewForbidden(r.GroupResource(), a.GetName(), errors.New(strings.Join(refusals, "; ")))
	}
	return nil
}

// accessRoles checks the rules of AccessRoles: one that a cluster refuses would
// fail in every cloud that grants it. It warns of those by which users could act as
// others.
type accessRoles struct{}

var _ admission.ValidationInterface = accessRoles{}

func (accessRoles) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate checks the rules of an AccessRole.
func (accessRoles) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "accessroles") {
		return nil
	}
	var now v1alpha1.AccessRole
	if err := decode(a.GetObject(), &now); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the AccessRole cannot be read: %v", err))
	}
	if errs := checkRules(now.Rules, false, field.NewPath("rules")); len(errs) > 0 && now.DeletionTimestamp == nil {
		return apierrors.NewInvalid(schema.GroupKind{Group: muster.GroupName, Kind: "AccessRole"}, a.GetName(), errs)
	}
	if now.ClusterScopeAllowed && now.DeletionTimestamp == nil {
		warnOfPowers(ctx, now.Rules, field.NewPath("rules"))
	}
	return nil
}

// cloudWorks lets the hub alone write the works of logical clouds: their bindings
// give users rights in clusters, and nobody who may write other works in a
// cluster's namespace has the right to give those.
type cloudWorks struct{}

var _ admission.ValidationInterface = cloudWorks{}

func (cloudWorks) Handles(op admission.Operation) bool { return op != admission.Connect }

// Validate refuses what is not the hub's or an agent's to write.
func (cloudWorks) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	now, before := metadataOf(a.GetObject()), metadataOf(a.GetOldObject())
	_, is := now.GetLabels()[muster.LogicalCloudLabel]
	_, was := before.GetLabels()[muster.LogicalCloudLabel]
	if !is && !was || isHub(a.GetUserInfo()) {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), fmt.Errorf(format, args...))
	}
	const advice = "works with the label %s are written by the hub only: change the LogicalCloud %s instead"
	cloud := before.GetAnnotations()[muster.LogicalCloudAnnotation]
	switch {
	case concerns(a, workGroup, "manifestworkreplicasets") && is:
		return refuse("the label %s is the hub's, and the works of a replica set have its labels: leave it out", muster.LogicalCloudLabel)
	case a.GetResource().Group != workGroup || a.GetResource().Resource != "manifestworks":
		return nil
	case a.GetOperation() != admission.Update:
		return refuse(advice, muster.LogicalCloudLabel, cloud)
	case a.GetSubresource() == "status" && isAgent(a.GetUserInfo()):
		return nil
	case a.GetSubresource() != "":
		return refuse("the status of a logical cloud's work is written by the cluster's agent only")
	case !sameBut(now, before, isAgent(a.GetUserInfo())):
		return refuse(advice, muster.LogicalCloudLabel, cloud)
	}
	return nil
}

// reservedFor says why a key of a label or annotation is not for users, or that
// it is for administrators.
func reservedFor(key string) (why string, administrators bool) {
	domain, _, prefixed := strings.Cut(key, "/")
	if !prefixed {
		return "", false
	}
	in := func(domains ...string) bool {
		return slices.ContainsFunc(domains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
	}
	switch {
	case in(muster.GroupName, "open-cluster-management.io"):
		return "keys of this domain are the hub's and the agent's; choose another one", false
	case in("kubernetes.io", "k8s.io", "openshift.io"):
		return "", true
	}
	return "", false
}

// sortedKeys are the keys of a map in order, so that errors come in one.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

const workGroup = work.GroupName

// metadataOf is the object of a request; an empty one where there is none.
func metadataOf(o runtime.Object) *unstructured.Unstructured {
	if u, ok := o.(*unstructured.Unstructured); ok && u != nil {
		return u
	}
	return &unstructured.Unstructured{Object: map[string]any{}}
}

// isAgent reports whether a user is the agent of a cluster.
func isAgent(u user.Info) bool { return len(cluster.AgentClusters(u.GetGroups())) > 0 }

// sameBut reports whether a work changes in nothing but what anybody may write,
// which is the wish to have it applied again, or an agent, which are finalizers.
func sameBut(now, before *unstructured.Unstructured, agent bool) bool {
	plain := func(o *unstructured.Unstructured) map[string]string {
		annotations := maps.Clone(o.GetAnnotations())
		delete(annotations, work.ReplayAnnotation)
		return annotations
	}
	return apiequality.Semantic.DeepEqual(now.Object["spec"], before.Object["spec"]) &&
		maps.Equal(now.GetLabels(), before.GetLabels()) && maps.Equal(plain(now), plain(before)) &&
		apiequality.Semantic.DeepEqual(now.GetOwnerReferences(), before.GetOwnerReferences()) &&
		(agent || slices.Equal(now.GetFinalizers(), before.GetFinalizers()))
}
