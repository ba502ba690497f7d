package connection

import (
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework-validators/boolvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// Model is how to reach an API server: the hub in the provider block,
// a managed cluster in muster_klusterlet.
type Model struct {
	KubeconfigPath    types.String `tfsdk:"kubeconfig_path"`
	Kubeconfig        types.String `tfsdk:"kubeconfig"`
	Context           types.String `tfsdk:"context"`
	Host              types.String `tfsdk:"host"`
	CA                types.String `tfsdk:"cluster_ca_certificate"`
	TLSServerName     types.String `tfsdk:"tls_server_name"`
	Insecure          types.Bool   `tfsdk:"insecure"`
	ProxyURL          types.String `tfsdk:"proxy_url"`
	Token             types.String `tfsdk:"token"`
	ClientCertificate types.String `tfsdk:"client_certificate"`
	ClientKey         types.String `tfsdk:"client_key"`
	Exec              *execModel   `tfsdk:"exec"`
}

type execModel struct {
	APIVersion types.String `tfsdk:"api_version"`
	Command    types.String `tfsdk:"command"`
	Args       types.List   `tfsdk:"args"`
	Env        types.Map    `tfsdk:"env"`
}

// connectionString describes one text attribute of a connection.
type connectionString struct {
	name, description string
	sensitive         bool
	conflicts         []string
	requires          []string
	validators        []validator.String
}

func connectionStrings() []connectionString {
	return []connectionString{
		{name: "kubeconfig_path", description: "Path of a kubeconfig file. A leading `~/` stands for the home directory; several files are separated as in `KUBECONFIG`. The file is read when it is first needed, so another resource may write it.", conflicts: []string{"kubeconfig"}},
		{name: "kubeconfig", description: "Content of a kubeconfig, for example from another provider's output.", sensitive: true},
		{name: "context", description: "Context of the kubeconfig to use instead of its current one."},
		{name: "host", description: "URL of the API server, such as `https://hub.example.com:6443`. With a kubeconfig it overrides the server in it.", validators: []validator.String{attribute.ValidURL()}},
		{name: "cluster_ca_certificate", description: "PEM certificates of the authorities that vouch for the server.", validators: []validator.String{attribute.ValidPEM()}},
		{name: "tls_server_name", description: "Name to expect in the server's certificate, where it differs from the host."},
		{name: "proxy_url", description: "URL of an HTTP, HTTPS or SOCKS5 proxy to go through.", validators: []validator.String{attribute.ValidURL()}},
		{name: "token", description: "Bearer token.", sensitive: true, conflicts: []string{"client_certificate", "exec"}},
		{name: "client_certificate", description: "PEM client certificate.", requires: []string{"client_key"}, conflicts: []string{"exec"}, validators: []validator.String{attribute.ValidPEM()}},
		{name: "client_key", description: "PEM key of the client certificate.", sensitive: true, requires: []string{"client_certificate"}, validators: []validator.String{attribute.ValidPEM()}},
	}
}

const (
	insecureDescription   = "Skip the verification of the server's certificate. For experiments only."
	execDescription       = "Program that prints credentials as an `ExecCredential` object, as in a kubeconfig. It runs again when they expire."
	apiVersionDescription = "API version of the `ExecCredential`: `client.authentication.k8s.io/v1` or `client.authentication.k8s.io/v1beta1`."
	commandDescription    = "Program to run."
	argsDescription       = "Arguments of the program."
	envDescription        = "Environment variables to set for the program."
)

// siblings are other attributes of the same connection.
func (connectionString) siblings(names ...string) []path.Expression {
	var paths []path.Expression
	for _, name := range names {
		paths = append(paths, path.MatchRelative().AtParent().AtName(name))
	}
	return paths
}

func (s connectionString) allValidators() []validator.String {
	validators := s.validators
	if len(s.conflicts) > 0 {
		validators = append(validators, stringvalidator.ConflictsWith(s.siblings(s.conflicts...)...))
	}
	if len(s.requires) > 0 {
		validators = append(validators, stringvalidator.AlsoRequires(s.siblings(s.requires...)...))
	}
	return validators
}

// environment names the variable that stands in for an attribute of the
// provider block.
func environment(attribute string) string {
	switch attribute {
	case "kubeconfig_path":
		return " Defaults to `MUSTER_KUBECONFIG`, then `KUBECONFIG`, where neither `kubeconfig` nor `host` is set."
	case "context":
		return " Defaults to `MUSTER_CONTEXT`."
	case "host":
		return " Defaults to `MUSTER_HOST`."
	case "token":
		return " Defaults to `MUSTER_TOKEN`."
	case "cluster_ca_certificate":
		return " Defaults to `MUSTER_CLUSTER_CA_CERTIFICATE`."
	case "client_certificate":
		return " Defaults to `MUSTER_CLIENT_CERTIFICATE`."
	case "client_key":
		return " Defaults to `MUSTER_CLIENT_KEY`."
	case "proxy_url":
		return " Defaults to `MUSTER_PROXY_URL`."
	case "insecure":
		return " Defaults to `MUSTER_INSECURE`."
	}
	return ""
}

func execVersions() []validator.String {
	return []validator.String{stringvalidator.OneOf("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")}
}

// ProviderAttributes are those of the provider block.
func ProviderAttributes() map[string]providerschema.Attribute {
	attributes := map[string]providerschema.Attribute{
		"insecure": providerschema.BoolAttribute{
			MarkdownDescription: insecureDescription + environment("insecure"), Optional: true,
			Validators: []validator.Bool{boolvalidator.ConflictsWith(path.MatchRelative().AtParent().AtName("cluster_ca_certificate"))},
		},
		"exec": providerschema.SingleNestedAttribute{
			MarkdownDescription: execDescription, Optional: true,
			Attributes: map[string]providerschema.Attribute{
				"api_version": providerschema.StringAttribute{MarkdownDescription: apiVersionDescription, Required: true, Validators: execVersions()},
				"command":     providerschema.StringAttribute{MarkdownDescription: commandDescription, Required: true},
				"args":        providerschema.ListAttribute{MarkdownDescription: argsDescription, Optional: true, ElementType: types.StringType},
				"env":         providerschema.MapAttribute{MarkdownDescription: envDescription, Optional: true, ElementType: types.StringType},
			},
		},
	}
	for _, s := range connectionStrings() {
		attributes[s.name] = providerschema.StringAttribute{
			MarkdownDescription: s.description + environment(s.name), Optional: true, Sensitive: s.sensitive, Validators: s.allValidators(),
		}
	}
	return attributes
}

// ResourceAttribute is the same as one attribute of a resource.
func ResourceAttribute(description string) resourceschema.SingleNestedAttribute {
	attributes := map[string]resourceschema.Attribute{
		"insecure": resourceschema.BoolAttribute{
			MarkdownDescription: insecureDescription, Optional: true,
			Validators: []validator.Bool{boolvalidator.ConflictsWith(path.MatchRelative().AtParent().AtName("cluster_ca_certificate"))},
		},
		"exec": resourceschema.SingleNestedAttribute{
			MarkdownDescription: execDescription, Optional: true,
			Attributes: map[string]resourceschema.Attribute{
				"api_version": resourceschema.StringAttribute{MarkdownDescription: apiVersionDescription, Required: true, Validators: execVersions()},
				"command":     resourceschema.StringAttribute{MarkdownDescription: commandDescription, Required: true},
				"args":        resourceschema.ListAttribute{MarkdownDescription: argsDescription, Optional: true, ElementType: types.StringType},
				"env":         resourceschema.MapAttribute{MarkdownDescription: envDescription, Optional: true, ElementType: types.StringType},
			},
		},
	}
	for _, s := range connectionStrings() {
		validators := s.allValidators()
		if s.name == "host" {
			validators = append(validators, stringvalidator.AtLeastOneOf(s.siblings("kubeconfig_path", "kubeconfig")...))
		}
		attributes[s.name] = resourceschema.StringAttribute{
			MarkdownDescription: s.description, Optional: true, Sensitive: s.sensitive, Validators: validators,
		}
	}
	return resourceschema.SingleNestedAttribute{
		MarkdownDescription: description,
		Required:            true,
		Attributes:          attributes,
	}
}

// Unknown lists the attributes whose values are not known yet.
func (m Model) Unknown() []string {
	var names []string
	for name, value := range m.strings() {
		if value.IsUnknown() {
			names = append(names, name)
		}
	}
	if m.Insecure.IsUnknown() {
		names = append(names, "insecure")
	}
	if m.Exec != nil && (m.Exec.Command.IsUnknown() || m.Exec.APIVersion.IsUnknown() || !attribute.Known(m.Exec.Args) || !attribute.Known(m.Exec.Env)) {
		names = append(names, "exec")
	}
	return attribute.Sorted(names)
}

func (m Model) strings() map[string]types.String {
	return map[string]types.String{
		"kubeconfig_path":        m.KubeconfigPath,
		"kubeconfig":             m.Kubeconfig,
		"context":                m.Context,
		"host":                   m.Host,
		"cluster_ca_certificate": m.CA,
		"tls_server_name":        m.TLSServerName,
		"proxy_url":              m.ProxyURL,
		"token":                  m.Token,
		"client_certificate":     m.ClientCertificate,
		"client_key":             m.ClientKey,
	}
}

// Connection is the model without Terraform's types. Unknown values become
// empty ones.
func (m Model) Connection() kube.Connection {
	c := kube.Connection{
		KubeconfigPath:    m.KubeconfigPath.ValueString(),
		Kubeconfig:        m.Kubeconfig.ValueString(),
		Context:           m.Context.ValueString(),
		Host:              m.Host.ValueString(),
		CA:                m.CA.ValueString(),
		TLSServerName:     m.TLSServerName.ValueString(),
		Insecure:          m.Insecure.ValueBool(),
		ProxyURL:          m.ProxyURL.ValueString(),
		Token:             m.Token.ValueString(),
		ClientCertificate: m.ClientCertificate.ValueString(),
		ClientKey:         m.ClientKey.ValueString(),
	}
	if m.Exec != nil {
		c.Exec = &kube.Exec{
			APIVersion: m.Exec.APIVersion.ValueString(),
			Command:    m.Exec.Command.ValueString(),
			Args:       attribute.StringList(m.Exec.Args),
			Env:        attribute.StringMap(m.Exec.Env),
		}
	}
	return c
}

// WithEnvironment fills in from the environment what the configuration leaves
// out. A kubeconfig from the environment only counts where the configuration
// names no server, so that a variable in somebody's shell can't mix into it.
func (m Model) WithEnvironment(getenv func(string) string) Model {
	fill := func(target *types.String, names ...string) {
		for _, name := range names {
			if value := getenv(name); target.IsNull() && value != "" {
				*target = types.StringValue(value)
			}
		}
	}
	if m.KubeconfigPath.IsNull() && m.Kubeconfig.IsNull() && m.Host.IsNull() {
		fill(&m.Host, "MUSTER_HOST")
		fill(&m.KubeconfigPath, "MUSTER_KUBECONFIG")
		if m.Host.IsNull() {
			fill(&m.KubeconfigPath, "KUBECONFIG")
		}
	}
	fill(&m.Context, "MUSTER_CONTEXT")
	if m.ClientCertificate.IsNull() && m.Exec == nil {
		fill(&m.Token, "MUSTER_TOKEN")
	}
	fill(&m.CA, "MUSTER_CLUSTER_CA_CERTIFICATE")
	if m.Token.IsNull() && m.Exec == nil {
		fill(&m.ClientCertificate, "MUSTER_CLIENT_CERTIFICATE")
		fill(&m.ClientKey, "MUSTER_CLIENT_KEY")
	}
	fill(&m.ProxyURL, "MUSTER_PROXY_URL")
	if insecure, err := strconv.ParseBool(getenv("MUSTER_INSECURE")); err == nil && m.Insecure.IsNull() {
		m.Insecure = types.BoolValue(insecure)
	}
	return m
}
