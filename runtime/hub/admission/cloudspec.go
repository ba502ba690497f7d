package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	coreconversion "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacconversion "k8s.io/kubernetes/pkg/apis/rbac/v1"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"

	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

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
