package klusterlet

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

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
	v := valuesOf(o, attributeTypes())
	return OptionsModel{
		Image: v["image"].(types.String), ImagePullPolicy: v["image_pull_policy"].(types.String),
		ImagePullSecrets: v["image_pull_secrets"].(types.List), Args: v["args"].(types.List),
		Labels: v["labels"].(types.Map), Annotations: v["annotations"].(types.Map), Env: v["env"].(types.Map),
		NodeSelector: v["node_selector"].(types.Map), Tolerations: v["tolerations"].(types.List),
		Affinity: v["affinity"].(types.Object), Resources: v["resources"].(types.Object),
		HostNetwork: v["host_network"].(types.Bool), PriorityClassName: v["priority_class_name"].(types.String),
		UserAccess: v["user_access"].(types.Bool),
	}
}

// values are the attributes by their names.
func (m OptionsModel) values() map[string]attr.Value {
	return map[string]attr.Value{
		"image": m.Image, "image_pull_policy": m.ImagePullPolicy, "image_pull_secrets": m.ImagePullSecrets, "args": m.Args,
		"labels": m.Labels, "annotations": m.Annotations, "env": m.Env, "node_selector": m.NodeSelector,
		"tolerations": m.Tolerations, "affinity": m.Affinity, "resources": m.Resources,
		"host_network": m.HostNetwork, "priority_class_name": m.PriorityClassName, "user_access": m.UserAccess,
	}
}

// AgentOptionsOf are the options that some of Attributes say, by their names. What is unknown is
// left out.
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
	theirs := other.values()
	for name, value := range m.values() {
		if !value.Equal(theirs[name]) {
			return false
		}
	}
	return true
}
