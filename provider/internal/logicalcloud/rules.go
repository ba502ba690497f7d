package logicalcloud

import (
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
)

// Rules of RBAC between Terraform and the API.

// ruleModel is one rule.
type ruleModel struct {
	APIGroups       []types.String `tfsdk:"api_groups"`
	Resources       []types.String `tfsdk:"resources"`
	ResourceNames   []types.String `tfsdk:"resource_names"`
	NonResourceURLs []types.String `tfsdk:"non_resource_urls"`
	Verbs           []types.String `tfsdk:"verbs"`
}

// maxRules is how many rules a role may have, and maxGrantRules a grant.
const (
	maxRules      = 256
	maxGrantRules = 64
)

// rulesAttribute is a list of rules, 1 to most of them.
func rulesAttribute(description string, required bool, most int) schema.ListNestedAttribute {
	texts := func(description string, required bool) schema.SetAttribute {
		return schema.SetAttribute{
			MarkdownDescription: description, Required: required, Optional: !required, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1)},
		}
	}
	return schema.ListNestedAttribute{
		MarkdownDescription: description, Required: required, Optional: !required,
		Validators: []validator.List{listvalidator.SizeBetween(1, most)},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"api_groups":        texts("API groups of the resources; `\"\"` is that of pods, services and config maps. Needed with `resources`.", false),
			"resources":         texts("Resources, such as `pods` or `deployments/scale`; `*` stands for all.", false),
			"resource_names":    texts("Names to which the rule is limited. If omitted, all names.", false),
			"non_resource_urls": texts("Paths that are no resources, such as `/metrics`. Only with the scope `Cluster`, and not with `resources`.", false),
			"verbs":             texts("What may be done, such as `get`, `list` and `watch`; `*` stands for all.", true),
		}},
	}
}

// rules are those of the models; nil when there are none.
func rules(models []ruleModel) []rbacv1.PolicyRule {
	var list []rbacv1.PolicyRule
	for _, m := range models {
		list = append(list, rbacv1.PolicyRule{
			APIGroups: sortedTexts(m.APIGroups), Resources: sortedTexts(m.Resources), ResourceNames: sortedTexts(m.ResourceNames),
			NonResourceURLs: sortedTexts(m.NonResourceURLs), Verbs: sortedTexts(m.Verbs),
		})
	}
	return list
}

// ruleModels are the rules as models; prior where they mean the same.
func ruleModels(live []rbacv1.PolicyRule, prior []ruleModel) []ruleModel {
	if sameRules(live, rules(prior)) {
		return prior
	}
	var models []ruleModel
	for _, r := range live {
		models = append(models, ruleModel{
			APIGroups: attribute.TextValues(r.APIGroups), Resources: attribute.TextValues(r.Resources), ResourceNames: attribute.TextValues(r.ResourceNames),
			NonResourceURLs: attribute.TextValues(r.NonResourceURLs), Verbs: attribute.TextValues(r.Verbs),
		})
	}
	return models
}

// sameRules reports whether rules allow the same in the same order, whatever the
// order within each of them.
func sameRules(a, b []rbacv1.PolicyRule) bool {
	return slices.EqualFunc(a, b, func(x, y rbacv1.PolicyRule) bool { return attribute.Same(sortedRule(x), sortedRule(y)) })
}

func sortedRule(r rbacv1.PolicyRule) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: slices.Sorted(slices.Values(r.APIGroups)), Resources: slices.Sorted(slices.Values(r.Resources)),
		ResourceNames: slices.Sorted(slices.Values(r.ResourceNames)), NonResourceURLs: slices.Sorted(slices.Values(r.NonResourceURLs)),
		Verbs: slices.Sorted(slices.Values(r.Verbs)),
	}
}

func sortedTexts(values []types.String) []string { return attribute.Sorted(attribute.Texts(values)) }

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
				fmt.Sprintf("%s says what may be done, but not to what. Add resources with their api_groups, or non_resource_urls.", attribute.Place(at)))
		case resources && !groups:
			diags.AddAttributeError(at, "Rule without API groups",
				fmt.Sprintf("%s has resources but no api_groups. Write api_groups = [\"\"] for pods, services and config maps, or [\"apps\"] for deployments.", attribute.Place(at)))
		case urls && namespaced:
			diags.AddAttributeError(at.AtName("non_resource_urls"), "Not in a namespace",
				fmt.Sprintf("%s has non_resource_urls, which are in no namespace. Set scope = \"Cluster\" for the grant, or remove them.", attribute.Place(at)))
		}
	}
}
