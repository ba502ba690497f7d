package logicalcloud

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Grants and quotas between Terraform and the API.

func grants(models []grantModel) []v1alpha1.Grant {
	var list []v1alpha1.Grant
	for _, m := range models {
		list = append(list, v1alpha1.Grant{
			Role: m.Role.ValueString(), Rules: rules(m.Rules), Scope: v1alpha1.GrantScope(m.Scope.ValueString()),
			Users: sortedTexts(m.Users), Groups: sortedTexts(m.Groups),
		})
	}
	return list
}

// grantModels are the grants as models; prior where they mean the same.
func grantModels(live []v1alpha1.Grant, prior []grantModel) []grantModel {
	if slices.EqualFunc(live, grants(prior), sameGrant) {
		return prior
	}
	var models []grantModel
	for i, g := range live {
		m := grantModel{
			Role: attribute.OptionalString(g.Role), Scope: types.StringValue(string(g.Scope)),
			Users: attribute.TextValues(g.Users), Groups: attribute.TextValues(g.Groups),
		}
		if i < len(prior) {
			m.Rules = prior[i].Rules
		}
		m.Rules = ruleModels(g.Rules, m.Rules)
		models = append(models, m)
	}
	return models
}

func sameGrant(a, b v1alpha1.Grant) bool {
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	return a.Role == b.Role && a.Scope == b.Scope && sameRules(a.Rules, b.Rules) &&
		slices.Equal(sorted(a.Users), sorted(b.Users)) && slices.Equal(sorted(a.Groups), sorted(b.Groups))
}

// quotas are those of the two maps, in the order of their names. What is no quantity
// is left out: validation refuses it.
func quotas(limits, scopes types.Map) []v1alpha1.CloudQuota {
	if limits.IsNull() || limits.IsUnknown() {
		return nil
	}
	var list []v1alpha1.CloudQuota
	for _, name := range slices.Sorted(maps.Keys(limits.Elements())) {
		quota := v1alpha1.CloudQuota{Name: name, Hard: corev1.ResourceList{}}
		values, _ := limits.Elements()[name].(types.Map)
		for key, text := range attribute.StringMap(values) {
			if q, err := resource.ParseQuantity(text); err == nil {
				quota.Hard[corev1.ResourceName(key)] = q
			}
		}
		if set, ok := scopes.Elements()[name].(types.Set); ok {
			for _, scope := range attribute.Sorted(attribute.StringList(set)) {
				quota.Scopes = append(quota.Scopes, corev1.ResourceQuotaScope(scope))
			}
		}
		list = append(list, quota)
	}
	return list
}

// quotaValues are quotas as the two maps; null where there are none.
func quotaValues(list []v1alpha1.CloudQuota) (limits, scopes types.Map) {
	limitType, scopeType := types.MapType{ElemType: types.StringType}, types.SetType{ElemType: types.StringType}
	allLimits, allScopes := map[string]attr.Value{}, map[string]attr.Value{}
	for _, quota := range list {
		texts := map[string]string{}
		for key, q := range quota.Hard {
			texts[string(key)] = q.String()
		}
		allLimits[quota.Name] = attribute.StringMapValue(texts)
		var names []string
		for _, scope := range quota.Scopes {
			names = append(names, string(scope))
		}
		if len(names) > 0 {
			allScopes[quota.Name] = attribute.StringSetValue(names)
		}
	}
	limits, scopes = types.MapNull(limitType), types.MapNull(scopeType)
	if len(allLimits) > 0 {
		limits = types.MapValueMust(limitType, allLimits)
	}
	if len(allScopes) > 0 {
		scopes = types.MapValueMust(scopeType, allScopes)
	}
	return limits, scopes
}

// sameQuotas reports whether quotas mean the same, whatever their order and however
// the quantities are written.
func sameQuotas(a, b []v1alpha1.CloudQuota) bool {
	sorted := func(list []v1alpha1.CloudQuota) []v1alpha1.CloudQuota {
		return slices.SortedFunc(slices.Values(list), func(x, y v1alpha1.CloudQuota) int { return strings.Compare(x.Name, y.Name) })
	}
	return slices.EqualFunc(sorted(a), sorted(b), func(x, y v1alpha1.CloudQuota) bool {
		return x.Name == y.Name && attribute.Same(x.Hard, y.Hard) &&
			slices.Equal(slices.Sorted(slices.Values(x.Scopes)), slices.Sorted(slices.Values(y.Scopes)))
	})
}
