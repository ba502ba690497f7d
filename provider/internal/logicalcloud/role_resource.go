package logicalcloud

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

type accessRole = *v1alpha1.AccessRole

// Role is muster_access_role.
func Role() crud.Declared {
	return &crud.Kind[accessRole]{
		Type: "access_role", Noun: "access role", Empty: &v1alpha1.AccessRole{},
		Description: "A role in the fleet administrator's catalogue: what the grants of logical clouds may name. " +
			"Who grants it needs the verb `bind` on it (`accessroles` in the API group `muster-fleet.io`) on the " +
			"hub, and for the scope `Cluster` the verb `grant-cluster-scope`, too. A change of its rules reaches " +
			"every cluster of every cloud that grants it.",
		Keys: []crud.Key{{
			Name: "name", Description: "Name of the role, by which grants refer to it. Changing it replaces the role.",
			Valid: attribute.ValidObjectName("access role name"),
		}},
		Table: attribute.Table[accessRole]{
			attribute.LabelsField[accessRole]("Labels of the role."),
			attribute.AnnotationsField[accessRole]("Annotations of the role."),
			rulesField("What the role allows, as the rules of a Kubernetes ClusterRole.", true, maxRules,
				func(role accessRole) *[]rbacv1.PolicyRule { return &role.Rules }).At("rules"),
			attribute.Flag("cluster_scope_allowed", attribute.DefaultFlag("Whether grants may give the role in all "+
				"of a cluster, and not in the cloud's namespace alone. Defaults to `false`.", false),
				func(role accessRole) *bool { return &role.ClusterScopeAllowed }).At("clusterScopeAllowed"),
		},
		Hooks: crud.Hooks[accessRole]{Validate: validateRole},
		List: &crud.List[accessRole]{
			Plural: "access roles", Objects: &v1alpha1.AccessRoleList{}, Needs: hub.AccessNeeds,
			Describe: func(role accessRole) string { return crud.Count(len(role.Rules), "rule") },
		},
	}
}

// validateRole refuses rules that no API server takes.
func validateRole(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var list types.List
	diags.Append(config.GetAttribute(ctx, path.Root("rules"), &list)...)
	checkRules(path.Root("rules"), list, false, diags)
}

// Rules of RBAC between Terraform and the API.

// maxRules is how many rules a role may have, and maxGrantRules a grant.
const (
	maxRules      = 256
	maxGrantRules = 64
)

// rulesField is a list of rules, 1 to most of them.
func rulesField[P any](
	description string, required bool, most int, at func(P) *[]rbacv1.PolicyRule,
) attribute.Field[P] {
	texts := func(
		name, description string, required bool, at func(*rbacv1.PolicyRule) *[]string,
	) attribute.Field[*rbacv1.PolicyRule] {
		return attribute.TextSet(name,
			schema.SetAttribute{
				MarkdownDescription: description, Required: required, Optional: !required,
				Validators: []validator.Set{setvalidator.SizeAtLeast(1)},
			}, at)
	}
	return attribute.Objects("rules",
		schema.ListNestedAttribute{
			MarkdownDescription: description, Required: required, Optional: !required,
			Validators: []validator.List{listvalidator.SizeBetween(1, most)},
		}, at,
		texts("api_groups", "API groups of the resources; `\"\"` is that of pods, services and config maps. Needed "+
			"with `resources`.",
			false, func(r *rbacv1.PolicyRule) *[]string { return &r.APIGroups }),
		texts("resources", "Resources, such as `pods` or `deployments/scale`; `*` stands for all.",
			false, func(r *rbacv1.PolicyRule) *[]string { return &r.Resources }),
		texts("resource_names", "Names to which the rule is limited. If omitted, all names.",
			false, func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames }),
		texts("non_resource_urls", "Paths that are no resources, such as `/metrics`. Only with the scope `Cluster`, "+
			"and not with `resources`.",
			false, func(r *rbacv1.PolicyRule) *[]string { return &r.NonResourceURLs }),
		texts("verbs", "What may be done, such as `get`, `list` and `watch`; `*` stands for all.",
			true, func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs }))
}

// checkRules refuses rules that no API server takes. namespaced says that they are
// for one namespace.
func checkRules(at path.Path, list attr.Value, namespaced bool, diags *diag.Diagnostics) {
	elements, ok := list.(types.List)
	if !ok {
		return
	}
	for i, element := range elements.Elements() {
		rule, ok := element.(types.Object)
		if !ok || rule.IsNull() || rule.IsUnknown() {
			continue
		}
		at, has := at.AtListIndex(i), func(name string) (set, known bool) {
			value := rule.Attributes()[name]
			return !value.IsNull(), !value.IsUnknown()
		}
		resources, known := has("resources")
		groups, groupsKnown := has("api_groups")
		urls, urlsKnown := has("non_resource_urls")
		switch {
		case !known || !groupsKnown || !urlsKnown:
		case resources && urls:
			diags.AddAttributeError(at, "Two kinds of rules in one",
				fmt.Sprintf("%s has resources and non_resource_urls. Make two rules of it.", attribute.Place(at)))
		case !resources && !urls:
			diags.AddAttributeError(at, "A rule about nothing",
				fmt.Sprintf("%s says what may be done, but not to what. Add resources with their api_groups, or "+
					"non_resource_urls.", attribute.Place(at)))
		case resources && !groups:
			diags.AddAttributeError(at, "Rule without API groups",
				fmt.Sprintf("%s has resources but no api_groups. Write api_groups = [\"\"] for pods, services and "+
					"config maps, or [\"apps\"] for deployments.", attribute.Place(at)))
		case urls && namespaced:
			diags.AddAttributeError(at.AtName("non_resource_urls"), "Not in a namespace",
				fmt.Sprintf("%s has non_resource_urls, which are in no namespace. Set scope = \"Cluster\" for the "+
					"grant, or remove them.", attribute.Place(at)))
		}
	}
}
