package logicalcloud

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Quotas are one list in the API, and two maps in Terraform.

// setQuotas writes the limits, in the order of the quotas' names. What is no quantity is
// left out: validation refuses it.
func setQuotas(limits types.Map, cloud logicalCloud) {
	for _, name := range slices.Sorted(maps.Keys(limits.Elements())) {
		quota := v1alpha1.CloudQuota{Name: name, Hard: corev1.ResourceList{}}
		values, _ := limits.Elements()[name].(types.Map)
		for key, text := range attribute.StringMap(values) {
			if q, err := resource.ParseQuantity(text); err == nil {
				quota.Hard[corev1.ResourceName(key)] = q
			}
		}
		cloud.Spec.Quotas = append(cloud.Spec.Quotas, quota)
	}
}

// setQuotaScopes adds the scopes to the quotas.
func setQuotaScopes(scopes types.Map, cloud logicalCloud) {
	for i := range cloud.Spec.Quotas {
		quota := &cloud.Spec.Quotas[i]
		set, ok := scopes.Elements()[quota.Name].(types.Set)
		if !ok {
			continue
		}
		for _, scope := range attribute.Sorted(attribute.StringList(set)) {
			quota.Scopes = append(quota.Scopes, corev1.ResourceQuotaScope(scope))
		}
	}
}

func quotasOf(cloud logicalCloud) types.Map {
	all := map[string]attr.Value{}
	for _, quota := range cloud.Spec.Quotas {
		texts := map[string]string{}
		for key, q := range quota.Hard {
			texts[string(key)] = q.String()
		}
		all[quota.Name] = attribute.StringMapValue(texts)
	}
	return mapOrNull(types.MapType{ElemType: types.StringType}, all)
}

func quotaScopesOf(cloud logicalCloud) types.Map {
	all := map[string]attr.Value{}
	for _, quota := range cloud.Spec.Quotas {
		var names []string
		for _, scope := range quota.Scopes {
			names = append(names, string(scope))
		}
		if len(names) > 0 {
			all[quota.Name] = attribute.StringSetValue(names)
		}
	}
	return mapOrNull(types.SetType{ElemType: types.StringType}, all)
}

// mapOrNull is null where there are no elements.
func mapOrNull(of attr.Type, elements map[string]attr.Value) types.Map {
	if len(elements) == 0 {
		return types.MapNull(of)
	}
	return types.MapValueMust(of, elements)
}
