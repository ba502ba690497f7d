package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/core"
	coreconversion "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacconversion "k8s.io/kubernetes/pkg/apis/rbac/v1"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"

	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
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
	writes
	*server
}

// Validate checks a cloud, or who writes its status.
func (p logicalClouds) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r := a.GetResource()
	if r.Group != muster.GroupName || r.Resource != "logicalclouds" {
		return nil
	}
	now, before, err := objects[v1alpha1.LogicalCloud](a)
	if err != nil {
		return err
	}
	hub := isHub(a.GetUserInfo())
	switch {
	case a.GetSubresource() == "status" && !hub:
		return forbidden(a, "the status of a logical cloud is written by the hub only")
	case a.GetSubresource() != "":
		return nil
	case !hub && slices.Contains(before.Finalizers, muster.AccessFinalizer) && !slices.Contains(now.Finalizers, muster.AccessFinalizer):
		return forbidden(a, "the finalizer %s is removed by the hub, once nothing of the cloud is left in clusters", muster.AccessFinalizer)
	case now.DeletionTimestamp != nil, a.GetOperation() == admission.Update && apiequality.Semantic.DeepEqual(now.Spec, before.Spec):
		return nil
	}
	if errs := checkCloud(&now.Spec, &before.Spec); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: muster.GroupName, Kind: "LogicalCloud"}, a.GetName(), errs)
	}
	g := granting{server: p.server, who: a.GetUserInfo(), namespace: a.GetNamespace()}
	refusals, errs, err := g.check(ctx, &now.Spec, &before.Spec)
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case len(errs) > 0:
		return apierrors.NewInvalid(schema.GroupKind{Group: muster.GroupName, Kind: "LogicalCloud"}, a.GetName(), errs)
	case len(refusals) > 0:
		return forbidden(a, "%s", strings.Join(refusals, "; "))
	}
	return nil
}

// accessRoles checks the rules of AccessRoles: one that a cluster refuses would
// fail in every cloud that grants it. It warns of those by which users could act as
// others.
type accessRoles struct{ writes }

// Validate checks the rules of an AccessRole.
func (accessRoles) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "accessroles") {
		return nil
	}
	now, _, err := objects[v1alpha1.AccessRole](a)
	if err != nil {
		return err
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
		return forbidden(a, format, args...)
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

// maxMetadata is how much labels and annotations of a cloud's namespace may take,
// in bytes. They are in every cluster's work.
const maxMetadata = 64 << 10

// usualLifetime is the default of a cloud's default lifetime, in seconds.
const usualLifetime = 8 * 60 * 60

// checkCloud checks what does not depend on the user: of an update, what it
// changes.
func checkCloud(now, before *v1alpha1.LogicalCloudSpec) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if now.Namespace.Name != before.Namespace.Name {
		if why := muster.ReservedNamespace(now.Namespace.Name); why != "" {
			errs = append(errs, field.Invalid(spec.Child("namespace", "name"), now.Namespace.Name, why+"; choose another name"))
		}
	}
	for i, p := range now.Placements {
		for _, problem := range validation.IsDNS1123Subdomain(p.Name) {
			if !slices.Contains(before.Placements, p) {
				errs = append(errs, field.Invalid(spec.Child("placements").Index(i).Child("name"), p.Name, problem+"; name a placement of the cloud's own namespace"))
			}
		}
	}
	errs = append(errs, checkMetadata(&now.Namespace, &before.Namespace, spec.Child("namespace"))...)
	for i, q := range now.Quotas {
		if !slices.ContainsFunc(before.Quotas, func(o v1alpha1.CloudQuota) bool { return apiequality.Semantic.DeepEqual(o, q) }) {
			errs = append(errs, checkQuota(q, spec.Child("quotas").Index(i))...)
		}
	}
	for i, g := range now.Grants {
		if !slices.ContainsFunc(before.Grants, func(o v1alpha1.Grant) bool { return apiequality.Semantic.DeepEqual(o, g) }) {
			errs = append(errs, checkGrant(g, spec.Child("grants").Index(i))...)
		}
	}
	// A cloud that says nothing gets usualLifetime; requests get as much of it as
	// the cloud allows.
	if a := now.Access; a.DefaultLifetimeSeconds > a.MaxLifetimeSeconds && a.MaxLifetimeSeconds > 0 && a.DefaultLifetimeSeconds != usualLifetime {
		errs = append(errs, field.Invalid(spec.Child("access", "defaultLifetimeSeconds"), a.DefaultLifetimeSeconds,
			fmt.Sprintf("it is more than maxLifetimeSeconds, which is %d; lower it, or raise that one", a.MaxLifetimeSeconds)))
	}
	return errs
}

func checkMetadata(now, before *v1alpha1.CloudNamespace, path *field.Path) (errs field.ErrorList) {
	size := 0
	for _, m := range []struct {
		child       string
		now, before map[string]string
		label       bool
	}{{"labels", now.Labels, before.Labels, true}, {"annotations", now.Annotations, before.Annotations, false}} {
		for _, key := range sortedKeys(m.now) {
			value := m.now[key]
			size += len(key) + len(value)
			if old, had := m.before[key]; had && old == value {
				continue
			}
			at := path.Child(m.child).Key(key)
			for _, problem := range validation.IsQualifiedName(key) {
				errs = append(errs, field.Invalid(at, key, problem))
			}
			if m.label {
				for _, problem := range validation.IsValidLabelValue(value) {
					errs = append(errs, field.Invalid(at, value, problem))
				}
			}
			if why, _ := reservedFor(key); why != "" {
				errs = append(errs, field.Invalid(at, key, why))
			}
		}
	}
	if size > maxMetadata {
		errs = append(errs, field.TooLong(path.Child("annotations"), "", maxMetadata))
	}
	return errs
}

// checkQuota checks a quota as clusters do.
func checkQuota(q v1alpha1.CloudQuota, path *field.Path) (errs field.ErrorList) {
	for _, problem := range validation.IsDNS1123Subdomain(q.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), q.Name, problem))
	}
	in, out := corev1.ResourceQuotaSpec{Hard: q.Hard, Scopes: q.Scopes}, core.ResourceQuotaSpec{}
	if err := coreconversion.Convert_v1_ResourceQuotaSpec_To_core_ResourceQuotaSpec(&in, &out, nil); err != nil {
		return append(errs, field.Invalid(path, q.Name, err.Error()))
	}
	return append(errs, corevalidation.ValidateResourceQuotaSpec(&out, path)...)
}

func checkGrant(g v1alpha1.Grant, path *field.Path) (errs field.ErrorList) {
	for i, user := range g.Users {
		if err := useraccess.CheckUser(user); err != nil {
			errs = append(errs, field.Invalid(path.Child("users").Index(i), user, err.Error()))
		}
	}
	for i, group := range g.Groups {
		at := path.Child("groups").Index(i)
		switch {
		case group == "":
			errs = append(errs, field.Required(at, "name a group of the hub"))
		case strings.HasPrefix(group, "system:"):
			errs = append(errs, field.Invalid(at, group, "it is a group of Kubernetes; grants are for groups of users of the hub"))
		}
	}
	return append(errs, checkRules(g.Rules, g.Scope != v1alpha1.ScopeCluster, path.Child("rules"))...)
}

// checkRules checks rules as clusters do.
func checkRules(rules []rbacv1.PolicyRule, namespaced bool, path *field.Path) (errs field.ErrorList) {
	for i := range rules {
		out := rbac.PolicyRule{}
		if err := rbacconversion.Convert_v1_PolicyRule_To_rbac_PolicyRule(&rules[i], &out, nil); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), "", err.Error()))
			continue
		}
		errs = append(errs, rbacvalidation.ValidatePolicyRule(out, namespaced, path.Index(i))...)
	}
	return errs
}
