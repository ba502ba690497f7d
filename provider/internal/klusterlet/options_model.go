package klusterlet

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// OptionsModel has the attributes of Attributes, to be embedded in a resource's model.
type OptionsModel struct {
	Image             types.String `tfsdk:"image"`
	ImagePullPolicy   types.String `tfsdk:"image_pull_policy"`
	ImagePullSecrets  types.List   `tfsdk:"image_pull_secrets"`
	Args              types.List   `tfsdk:"args"`
	Labels            types.Map    `tfsdk:"labels"`
	Annotations       types.Map    `tfsdk:"annotations"`
	Env               types.Map    `tfsdk:"env"`
	NodeSelector      types.Map    `tfsdk:"node_selector"`
	Tolerations       types.List   `tfsdk:"tolerations"`
	Affinity          types.Object `tfsdk:"affinity"`
	Resources         types.Object `tfsdk:"resources"`
	HostNetwork       types.Bool   `tfsdk:"host_network"`
	PriorityClassName types.String `tfsdk:"priority_class_name"`
	UserAccess        types.Bool   `tfsdk:"user_access"`
}

// OptionsModelOf is the model of options, with null for all that is not set.
func OptionsModelOf(o v1alpha1.AgentOptions) OptionsModel {
	of := attributeTypes()
	return attribute.As[OptionsModel](types.ObjectValueMust(of, valuesOf(o, of)))
}

// values are the attributes by their names.
func (m OptionsModel) values() map[string]attr.Value {
	of := attributeTypes()
	object, _ := types.ObjectValueFrom(context.Background(), of, m) // the model fits: a test says so
	return object.Attributes()
}

// AgentOptionsOf are the options that some of AgentAttributes say, by their names. What is
// unknown is left out.
func AgentOptionsOf(attributes map[string]attr.Value) v1alpha1.AgentOptions {
	return read(attributes).options
}

// AgentOptionValues are some of Attributes that say what options say.
func AgentOptionValues(o v1alpha1.AgentOptions, names ...string) map[string]attr.Value {
	of, all := map[string]attr.Type{}, attributeTypes()
	for _, name := range names {
		of[name] = all[name]
	}
	return valuesOf(o, of)
}

// Options are the options that the attributes say. What is unknown is left out.
func (m OptionsModel) Options() v1alpha1.AgentOptions { return read(m.values()).options }

// Equal reports whether two models say the same in the same words.
func (m OptionsModel) Equal(other OptionsModel) bool {
	return maps.EqualFunc(m.values(), other.values(), func(a, b attr.Value) bool { return a.Equal(b) })
}
