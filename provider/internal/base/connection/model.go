package connection

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Model is how to reach an API server, by the names of the attributes: the hub in the
// provider block, a managed cluster in muster_klusterlet.
type Model attribute.Values

// table are all attributes, with the environment variables in their descriptions or
// without.
func table(environment bool) attribute.Table[*kube.Connection] {
	var fields attribute.Table[*kube.Connection]
	for _, s := range settings() {
		fields = append(fields, s.field(environment))
	}
	return fields
}

// ProviderAttributes are those of the provider block, which the framework takes as it
// takes those of a resource. Check tells how they go together.
func ProviderAttributes() map[string]providerschema.Attribute {
	attributes := map[string]providerschema.Attribute{}
	for name, a := range table(true).Attributes() {
		attributes[name] = a
	}
	return attributes
}

// ResourceAttribute is the same as one attribute of a resource, and checks how its
// attributes go together.
func ResourceAttribute(description string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description,
		Required:            true,
		Attributes:          table(false).Attributes(),
		Validators: []validator.Object{attribute.ValidObject("how to reach one API server",
			func(at path.Path, values attribute.Values, diags *diag.Diagnostics) {
				for _, problem := range Model(values).problems(true) {
					diags.AddAttributeError(at.AtName(problem.attribute), problem.summary, problem.detail)
				}
			})},
	}
}

// AtPath is the connection of a kubeconfig file and a context in it, which may be
// null.
func AtPath(kubeconfig, context types.String) Model {
	return Model{"kubeconfig_path": kubeconfig, "context": context}
}

// Of is the connection of a resource's attribute; nil where nothing is known of it.
func Of(value types.Object) Model {
	if value.IsNull() || value.IsUnknown() {
		return nil
	}
	return value.Attributes()
}

// Object is the connection as the attribute of a resource.
func (m Model) Object() types.Object {
	kinds, values := table(false).Types(), map[string]attr.Value{}
	for name, kind := range kinds {
		if values[name] = m[name]; values[name] == nil {
			values[name] = attribute.Null(kind)
		}
	}
	return types.ObjectValueMust(kinds, values)
}

// Path is the path of the kubeconfig, by whichever of its names it is set.
func (m Model) Path() types.String { return m.either("kubeconfig_path", "config_path") }

// ContextName is the context of the kubeconfig, by whichever of its names it is
// set.
func (m Model) ContextName() types.String { return m.either("context", "config_context") }

func (m Model) either(a, b string) types.String {
	if !attribute.Values(m).IsSet(a) {
		a = b
	}
	text, _ := m[a].(types.String)
	return text
}

// Unknown lists the attributes whose values are not known yet.
func (m Model) Unknown() []string {
	var names []string
	for name, value := range m {
		if !attribute.Known(value) {
			names = append(names, name)
		}
	}
	return attribute.Sorted(names)
}

// Connection is the model without Terraform's types. Unknown values become
// empty ones.
func (m Model) Connection() kube.Connection {
	var c kube.Connection
	table(false).Write(attribute.Values(m), &c)
	return c
}

// isEmpty reports whether an attribute is null or the empty text.
func (m Model) isEmpty(name string) bool {
	return !attribute.Values(m).IsSet(name) || m[name].Equal(types.StringValue(""))
}

// mayName reports whether one of the attributes is set or may turn out to be.
func (m Model) mayName(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return attribute.Values(m).IsSet(name) && !m[name].Equal(types.BoolValue(false))
	})
}

// names are those of the attributes about one part.
func (p part) names() []string {
	var names []string
	for _, s := range settings() {
		if s.part == p {
			names = append(names, s.name)
		}
	}
	return names
}

// namesServer reports whether the configuration says where the server is, be it
// with a value that is not known yet.
func (m Model) namesServer() bool { return m.mayName(server.names()) }

// hasCredentials reports whether the configuration says who is asking.
func (m Model) hasCredentials() bool {
	return slices.ContainsFunc(credentials.names(), func(name string) bool { return !m.isEmpty(name) })
}
