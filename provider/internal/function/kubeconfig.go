package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/connection"
)

// NewKubeconfig is kubeconfig.
func NewKubeconfig() function.Function {
	return declared[types.Dynamic]{name: "kubeconfig", run: func(ctx context.Context, argument types.Dynamic) (any, error) {
		return renderKubeconfig(ctx, argument)
	}, definition: function.Definition{
		Summary: "A kubeconfig",
		MarkdownDescription: "Writes a kubeconfig with one cluster, one user and one context, from the outputs of " +
			"whatever made the " +
			"cluster: for `kubeconfig` of `cluster_connection`, for a file, or for other tools. " +
			"What does not go together, such as two credentials, and what is not PEM, is an error. A result with " +
			"sensitive or ephemeral " +
			"values in it is sensitive or ephemeral, too.",
		Parameters: []function.Parameter{function.DynamicParameter{
			Name: "connection",
			MarkdownDescription: "An object with the attributes of `cluster_connection`: `host`, which is required, " +
				"`cluster_ca_certificate`, `tls_server_name`, `insecure`, `proxy_url`, " +
				"one credential of `token`, `client_certificate` with `client_key`, `username` with `password`, and " +
				"`exec`; and `impersonate`. " +
				"Further `name`, which the cluster, the user and the context get, and which defaults to `muster`, " +
				"and `namespace`, the context's.",
		}},
		Return: function.StringReturn{},
	}}
}

// kubeconfigArgument has the names of cluster_connection.
type kubeconfigArgument struct {
	Host              string               `json:"host"`
	CA                string               `json:"cluster_ca_certificate"`
	TLSServerName     string               `json:"tls_server_name"`
	Insecure          bool                 `json:"insecure"`
	ProxyURL          string               `json:"proxy_url"`
	Token             string               `json:"token"`
	ClientCertificate string               `json:"client_certificate"`
	ClientKey         string               `json:"client_key"`
	Username          string               `json:"username"`
	Password          string               `json:"password"`
	Exec              *execArgument        `json:"exec"`
	Impersonate       *impersonateArgument `json:"impersonate"`
	Name              string               `json:"name"`
	Namespace         string               `json:"namespace"`
}

type execArgument struct {
	APIVersion string            `json:"api_version"`
	Command    string            `json:"command"`
	Args       []string          `json:"args"`
	Env        map[string]string `json:"env"`
}

type impersonateArgument struct {
	User   string              `json:"user"`
	UID    string              `json:"uid"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`
}

func renderKubeconfig(ctx context.Context, argument types.Dynamic) (string, error) {
	var a kubeconfigArgument
	if err := read(argument, &a); err != nil {
		return "", err
	}
	m := connection.AtPath(types.StringNull(), types.StringNull())
	for target, value := range map[*types.String]string{
		&m.Host: a.Host, &m.CA: a.CA, &m.TLSServerName: a.TLSServerName, &m.ProxyURL: a.ProxyURL,
		&m.Token: a.Token, &m.ClientCertificate: a.ClientCertificate, &m.ClientKey: a.ClientKey,
		&m.Username: a.Username, &m.Password: a.Password,
	} {
		*target = attribute.OptionalString(value)
	}
	m.Insecure = types.BoolValue(a.Insecure)
	if e := a.Exec; e != nil {
		m.SetExec(e.APIVersion, e.Command, e.Args, e.Env)
	}
	if i := a.Impersonate; i != nil {
		m.SetImpersonate(i.User, i.UID, i.Groups, i.Extra)
	}
	if err := m.Validate(ctx); err != nil {
		return "", err
	}
	name := a.Name
	if name == "" {
		name = "muster"
	}
	return m.Connection().Render(name, a.Namespace)
}
