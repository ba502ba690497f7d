package addon

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// What hub and agent report about an add-on in a cluster. The values are the
// framework's, for they are unknown while planning. Times are left out: they would make
// a difference where nothing has happened.

type clusterAddOnStatusModel struct {
	AgentNamespace   types.String `tfsdk:"agent_namespace"`
	ConfigReferences types.List   `tfsdk:"config_references"`
	Registrations    types.List   `tfsdk:"registrations"`
	Conditions       types.List   `tfsdk:"conditions"`
}

func clusterAddOnStatusAttributes() map[string]schema.Attribute {
	text := attribute.TextAttribute
	return map[string]schema.Attribute{
		"agent_namespace": text("Namespace in the cluster in which the agent runs and has its credentials, as last read; empty while the add-on's manager has not said."),
		"config_references": schema.ListNestedAttribute{
			MarkdownDescription: "The configurations that count in the cluster, out of the add-on's defaults, its placement's and `configs`, as last read.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"group":     text("API group of the configuration's kind."),
				"resource":  text("Plural name of the configuration's kind."),
				"namespace": text("Namespace of the object; null where it has none."),
				"name":      text("Name of the object."),
				"spec_hash": text("Hash of its content that the cluster is to have; empty while it is not known, as when the object does not exist."),
				"applied":   schema.BoolAttribute{MarkdownDescription: "Whether the cluster has it.", Computed: true},
			}},
		},
		"registrations": schema.ListNestedAttribute{
			MarkdownDescription: "The credentials that the agent gets, as last read.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"signer_name": text("Who signs: `kubernetes.io/kube-apiserver-client` for the hub's API, or a signer of the add-on's own."),
				"user":        text("User in the certificate, or of the token."),
				"groups":      schema.ListAttribute{MarkdownDescription: "Groups in the certificate.", Computed: true, ElementType: types.StringType},
			}},
		},
		"conditions": schema.ListNestedAttribute{
			MarkdownDescription: "Conditions of the add-on in the cluster, such as `Available`, `Progressing` and `RegistrationApplied`, as last read. They keep changing after an apply; `wait` waits for some of them.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"type":    text("Type of the condition, such as `Available`."),
				"status":  text("`True`, `False` or `Unknown`."),
				"reason":  text("Reason in one word."),
				"message": text("Reason in a sentence."),
			}},
		},
	}
}

func configReferenceType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"group": types.StringType, "resource": types.StringType, "namespace": types.StringType, "name": types.StringType,
		"spec_hash": types.StringType, "applied": types.BoolType,
	}}
}

func registrationType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"signer_name": types.StringType, "user": types.StringType, "groups": types.ListType{ElemType: types.StringType},
	}}
}

// unreported are the reports of an add-on that is about to be written.
func unreported() map[string]any {
	return map[string]any{
		"agent_namespace": types.StringUnknown(), "config_references": types.ListUnknown(configReferenceType()),
		"registrations": types.ListUnknown(registrationType()), "conditions": types.ListUnknown(manifestwork.WorkConditionType()),
	}
}

// report takes over what hub and agent report.
func (m *clusterAddOnStatusModel) report(object *v1alpha1.ManagedClusterAddOn) {
	references, registrations := []attr.Value{}, []attr.Value{}
	for _, c := range observedAddOn(object).Configs {
		references = append(references, types.ObjectValueMust(configReferenceType().AttrTypes, map[string]attr.Value{
			"group": c.Group, "resource": c.Resource, "namespace": c.Namespace, "name": c.Name, "spec_hash": c.SpecHash, "applied": c.Applied,
		}))
	}
	for _, r := range object.Status.Registrations {
		groups := r.Subject.Groups
		if groups == nil {
			groups = []string{}
		}
		registrations = append(registrations, types.ObjectValueMust(registrationType().AttrTypes, map[string]attr.Value{
			"signer_name": types.StringValue(r.SignerName), "user": types.StringValue(r.Subject.User), "groups": attribute.StringListValue(groups),
		}))
	}
	m.AgentNamespace = types.StringValue(object.Status.Namespace)
	m.ConfigReferences = types.ListValueMust(configReferenceType(), references)
	m.Registrations = types.ListValueMust(registrationType(), registrations)
	m.Conditions = manifestwork.WorkConditionsValue(object.Status.Conditions)
}

// reportPlanned is report for what the plan has left open. What it has shown stays.
func (m *clusterAddOnStatusModel) reportPlanned(object *v1alpha1.ManagedClusterAddOn) {
	if m.Conditions.IsUnknown() {
		m.report(object)
	}
}
