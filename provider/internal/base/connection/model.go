package connection

import (
	"context"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Model is how to reach an API server: the hub in the provider block,
// a managed cluster in muster_klusterlet.
type Model struct {
	KubeconfigPath    types.String `tfsdk:"kubeconfig_path"`
	ConfigPath        types.String `tfsdk:"config_path"`
	ConfigPaths       types.List   `tfsdk:"config_paths"`
	Kubeconfig        types.String `tfsdk:"kubeconfig"`
	Context           types.String `tfsdk:"context"`
	ConfigContext     types.String `tfsdk:"config_context"`
	ContextCluster    types.String `tfsdk:"config_context_cluster"`
	ContextUser       types.String `tfsdk:"config_context_auth_info"`
	InCluster         types.Bool   `tfsdk:"in_cluster"`
	Host              types.String `tfsdk:"host"`
	CA                types.String `tfsdk:"cluster_ca_certificate"`
	TLSServerName     types.String `tfsdk:"tls_server_name"`
	Insecure          types.Bool   `tfsdk:"insecure"`
	ProxyURL          types.String `tfsdk:"proxy_url"`
	Token             types.String `tfsdk:"token"`
	ClientCertificate types.String `tfsdk:"client_certificate"`
	ClientKey         types.String `tfsdk:"client_key"`
	Username          types.String `tfsdk:"username"`
	Password          types.String `tfsdk:"password"`
	Exec              types.Object `tfsdk:"exec"`
	Impersonate       types.Object `tfsdk:"impersonate"`
}

type execModel struct {
	APIVersion types.String `tfsdk:"api_version"`
	Command    types.String `tfsdk:"command"`
	Args       types.List   `tfsdk:"args"`
	Env        types.Map    `tfsdk:"env"`
}

type impersonateModel struct {
	User   types.String `tfsdk:"user"`
	UID    types.String `tfsdk:"uid"`
	Groups types.List   `tfsdk:"groups"`
	Extra  types.Map    `tfsdk:"extra"`
}

// AtPath is the connection of a kubeconfig file and a context in it, which may be
// null.
func AtPath(kubeconfig, context types.String) *Model {
	object := func(name string) types.Object {
		attributes, _ := ResourceAttribute("").Attributes[name].GetType().(types.ObjectType)
		return types.ObjectNull(attributes.AttrTypes)
	}
	return &Model{
		KubeconfigPath: kubeconfig, Context: context,
		ConfigPaths: types.ListNull(types.StringType), Exec: object("exec"), Impersonate: object("impersonate"),
	}
}

// Of is the connection of a resource's attribute; nil where nothing is known of it.
func Of(value types.Object) *Model {
	var m Model
	if value.IsNull() || value.IsUnknown() ||
		value.As(context.Background(), &m, basetypes.ObjectAsOptions{}).HasError() {
		return nil
	}
	return &m
}

// Object is the connection as the attribute of a resource.
func (m Model) Object() types.Object {
	kind, _ := ResourceAttribute("").GetType().(types.ObjectType)
	value, diags := types.ObjectValueFrom(context.Background(), kind.AttrTypes, m)
	if diags.HasError() {
		return types.ObjectUnknown(kind.AttrTypes)
	}
	return value
}

// Path is the path of the kubeconfig, by whichever of its names it is set.
func (m Model) Path() types.String { return either(m.KubeconfigPath, m.ConfigPath) }

// ContextName is the context of the kubeconfig, by whichever of its names it is
// set.
func (m Model) ContextName() types.String { return either(m.Context, m.ConfigContext) }

func either(a, b types.String) types.String {
	if a.IsNull() {
		return b
	}
	return a
}

// values are the attributes by their names.
func (m Model) values() map[string]attr.Value {
	values := map[string]attr.Value{}
	model := reflect.ValueOf(m)
	for i := range model.NumField() {
		if value, ok := model.Field(i).Interface().(attr.Value); ok {
			values[model.Type().Field(i).Tag.Get("tfsdk")] = value
		}
	}
	return values
}

// Unknown lists the attributes whose values are not known yet.
func (m Model) Unknown() []string {
	var names []string
	for name, value := range m.values() {
		if !attribute.Known(value) {
			names = append(names, name)
		}
	}
	return attribute.Sorted(names)
}

// Connection is the model without Terraform's types. Unknown values become
// empty ones.
func (m Model) Connection() kube.Connection {
	c := kube.Connection{
		KubeconfigPath:    m.Path().ValueString(),
		KubeconfigPaths:   attribute.StringList(m.ConfigPaths),
		Kubeconfig:        m.Kubeconfig.ValueString(),
		Context:           m.ContextName().ValueString(),
		ContextCluster:    m.ContextCluster.ValueString(),
		ContextUser:       m.ContextUser.ValueString(),
		InCluster:         m.InCluster.ValueBool(),
		Host:              m.Host.ValueString(),
		CA:                m.CA.ValueString(),
		TLSServerName:     m.TLSServerName.ValueString(),
		Insecure:          m.Insecure.ValueBool(),
		ProxyURL:          m.ProxyURL.ValueString(),
		Token:             m.Token.ValueString(),
		ClientCertificate: m.ClientCertificate.ValueString(),
		ClientKey:         m.ClientKey.ValueString(),
		Username:          m.Username.ValueString(),
		Password:          m.Password.ValueString(),
	}
	c.Exec, c.Impersonate = m.exec(), m.impersonate()
	return c
}

// exec is nil where nothing is known of it.
func (m Model) exec() *kube.Exec {
	var e execModel
	if m.Exec.IsNull() || m.Exec.IsUnknown() ||
		m.Exec.As(context.Background(), &e, basetypes.ObjectAsOptions{}).HasError() {
		return nil
	}
	return &kube.Exec{
		APIVersion: e.APIVersion.ValueString(),
		Command:    e.Command.ValueString(),
		Args:       attribute.StringList(e.Args),
		Env:        attribute.StringMap(e.Env),
	}
}

// impersonate is nil where nothing is known of it.
func (m Model) impersonate() *kube.Impersonate {
	var i impersonateModel
	if m.Impersonate.IsNull() || m.Impersonate.IsUnknown() ||
		m.Impersonate.As(context.Background(), &i, basetypes.ObjectAsOptions{}).HasError() {
		return nil
	}
	impersonate := &kube.Impersonate{
		User:   i.User.ValueString(),
		UID:    i.UID.ValueString(),
		Groups: attribute.StringList(i.Groups),
	}
	for key, value := range i.Extra.Elements() {
		if list, ok := value.(types.List); ok {
			if impersonate.Extra == nil {
				impersonate.Extra = map[string][]string{}
			}
			impersonate.Extra[key] = attribute.StringList(list)
		}
	}
	return impersonate
}
