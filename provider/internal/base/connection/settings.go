package connection

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// part says what an attribute is about.
type part int

const (
	server      part = iota + 1 // names the server
	choice                      // chooses in a kubeconfig
	trust                       // how to tell the right server
	route                       // the way there
	credentials                 // who is asking
	identity                    // on whose behalf
)

// setting is one attribute of a connection.
type setting struct {
	name, description string
	part              part
	sensitive         bool
	// muster and kube are the environment variables that stand in for it: the
	// provider's own, and that of the Kubernetes provider.
	muster, kube string
	// same is another name for the same thing.
	same string
	// with is what has to be set too.
	with       string
	validators []validator.String
	// text, flag and object are where the connection has it. One of them is set.
	text   func(*kube.Connection) *string
	flag   func(*kube.Connection) *bool
	object func(name, description string) field
}

type field = attribute.Field[*kube.Connection]

// field is the attribute, with the environment variables in its description or without.
func (s setting) field(environment bool) field {
	if environment {
		s.description += s.environment()
	}
	switch {
	case s.text != nil:
		text := attribute.Optional(s.description, s.validators...)
		text.Sensitive = s.sensitive
		return attribute.Text(s.name, text, s.text)
	case s.flag != nil:
		return attribute.Flag(s.name, attribute.OptionalFlag(s.description), s.flag)
	}
	return s.object(s.name, s.description)
}

// settings is the table of all attributes.
func settings() []setting {
	return slices.Concat(serverSettings(), choiceSettings(), routeSettings(), credentialSettings())
}

// serverSettings are about where the server is.
func serverSettings() []setting {
	return []setting{
		{
			name: "kubeconfig_path", part: server, muster: "MUSTER_KUBECONFIG", same: "config_path",
			validators: []validator.String{notEmpty()},
			text:       func(c *kube.Connection) *string { return &c.KubeconfigPath },
			description: "Path of a kubeconfig file. A leading `~/` stands for the home directory; several files are " +
				"separated as in " +
				"`KUBECONFIG`. The file is read when it is first needed, so another resource may write it.",
		},
		{
			name: "config_path", part: server, kube: "KUBE_CONFIG_PATH", same: "kubeconfig_path",
			validators:  []validator.String{notEmpty()},
			text:        func(c *kube.Connection) *string { return &c.KubeconfigPath },
			description: "The same as `kubeconfig_path`, by the name that it has in the provider `kubernetes`.",
		},
		{
			name: "config_paths", part: server, kube: "KUBE_CONFIG_PATHS", object: pathsField,
			description: "Paths of several kubeconfig files to merge. Each has to exist.",
		},
		{
			name: "kubeconfig", part: server, sensitive: true,
			validators:  []validator.String{notEmpty()},
			text:        func(c *kube.Connection) *string { return &c.Kubeconfig },
			description: "Content of a kubeconfig, for example from another provider's output.",
		},
		{
			name: "in_cluster", part: server, muster: "MUSTER_IN_CLUSTER",
			flag: func(c *kube.Connection) *bool { return &c.InCluster },
			description: "Use the server and the service account of the pod that Terraform runs in. Its token is " +
				"read again when it is renewed.",
		},
		{
			name: "host", part: server, muster: "MUSTER_HOST", kube: "KUBE_HOST",
			validators: []validator.String{attribute.ValidURL()},
			text:       func(c *kube.Connection) *string { return &c.Host },
			description: "URL of the API server, such as `https://hub.example.com:6443`. With a kubeconfig it " +
				"overrides the server in it, and the kubeconfig's credentials are sent there.",
		},
	}
}

// choiceSettings are about what to choose in a kubeconfig.
func choiceSettings() []setting {
	return []setting{
		{
			name: "context", part: choice, muster: "MUSTER_CONTEXT", same: "config_context",
			text:        func(c *kube.Connection) *string { return &c.Context },
			description: "Context of the kubeconfig to use instead of its current one.",
		},
		{
			name: "config_context", part: choice, kube: "KUBE_CTX", same: "context",
			text:        func(c *kube.Connection) *string { return &c.Context },
			description: "The same as `context`, by the name that it has in the provider `kubernetes`.",
		},
		{
			name: "config_context_cluster", part: choice, muster: "MUSTER_CONTEXT_CLUSTER", kube: "KUBE_CTX_CLUSTER",
			text:        func(c *kube.Connection) *string { return &c.ContextCluster },
			description: "Cluster of the kubeconfig to use instead of the context's.",
		},
		{
			name: "config_context_auth_info", part: choice,
			muster: "MUSTER_CONTEXT_AUTH_INFO", kube: "KUBE_CTX_AUTH_INFO",
			text:        func(c *kube.Connection) *string { return &c.ContextUser },
			description: "User of the kubeconfig to use instead of the context's.",
		},
	}
}

// routeSettings are about how to get to the server, and how to know it.
func routeSettings() []setting {
	return []setting{
		{
			name: "cluster_ca_certificate", part: trust,
			muster: "MUSTER_CLUSTER_CA_CERTIFICATE", kube: "KUBE_CLUSTER_CA_CERT_DATA",
			validators:  []validator.String{attribute.ValidPEM()},
			text:        func(c *kube.Connection) *string { return &c.CA },
			description: "PEM certificates of the authorities that vouch for the server.",
		},
		{
			name: "tls_server_name", part: route, muster: "MUSTER_TLS_SERVER_NAME", kube: "KUBE_TLS_SERVER_NAME",
			text:        func(c *kube.Connection) *string { return &c.TLSServerName },
			description: "Name to expect in the server's certificate, where it differs from the host.",
		},
		{
			name: "insecure", part: route, muster: "MUSTER_INSECURE", kube: "KUBE_INSECURE",
			flag:        func(c *kube.Connection) *bool { return &c.Insecure },
			description: "Skip the verification of the server's certificate. For experiments only.",
		},
		{
			name: "proxy_url", part: route, muster: "MUSTER_PROXY_URL", kube: "KUBE_PROXY_URL",
			validators:  []validator.String{attribute.ValidURL()},
			text:        func(c *kube.Connection) *string { return &c.ProxyURL },
			description: "URL of an HTTP, HTTPS or SOCKS5 proxy to go through.",
		},
	}
}

// credentialSettings are about who is asking.
func credentialSettings() []setting {
	return []setting{
		{
			name: "token", part: credentials, sensitive: true, muster: "MUSTER_TOKEN", kube: "KUBE_TOKEN",
			text: func(c *kube.Connection) *string { return &c.Token },
			description: "Bearer token. Like all credentials that are set here, it replaces those of the kubeconfig " +
				"as a whole.",
		},
		{
			name: "client_certificate", part: credentials, with: "client_key",
			muster: "MUSTER_CLIENT_CERTIFICATE", kube: "KUBE_CLIENT_CERT_DATA",
			validators:  []validator.String{attribute.ValidPEM()},
			text:        func(c *kube.Connection) *string { return &c.ClientCertificate },
			description: "PEM client certificate.",
		},
		{
			name: "client_key", part: credentials, sensitive: true, with: "client_certificate",
			muster: "MUSTER_CLIENT_KEY", kube: "KUBE_CLIENT_KEY_DATA",
			validators:  []validator.String{attribute.ValidPEM()},
			text:        func(c *kube.Connection) *string { return &c.ClientKey },
			description: "PEM key of the client certificate.",
		},
		{
			name: "username", part: credentials, with: "password", muster: "MUSTER_USER", kube: "KUBE_USER",
			text: func(c *kube.Connection) *string { return &c.Username },
			description: "User name for HTTP basic authentication, which Kubernetes itself no longer has but proxies " +
				"may.",
		},
		{
			name: "password", part: credentials, sensitive: true, with: "username",
			muster: "MUSTER_PASSWORD", kube: "KUBE_PASSWORD",
			text:        func(c *kube.Connection) *string { return &c.Password },
			description: "Password for HTTP basic authentication.",
		},
		{
			name: "exec", part: credentials, object: execField,
			description: "Program that prints credentials as an `ExecCredential` object, as in a kubeconfig. It runs " +
				"again when they expire, " +
				"without a terminal; what it writes to its standard error is in the message when it fails.",
		},
		{
			name: "impersonate", part: identity, object: impersonateField,
			description: "Identity to act as, like `--as` of kubectl. The credentials need the right to impersonate " +
				"it.",
		},
	}
}

// pathsField keeps a list that names the server from being empty.
func pathsField(name, description string) field {
	return attribute.TextList(name, schema.ListAttribute{
		MarkdownDescription: description, Optional: true,
		Validators: []validator.List{listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(notEmpty()),
			listvalidator.NoNullValues()},
	}, func(c *kube.Connection) *[]string { return &c.KubeconfigPaths })
}

func execField(name, description string) field {
	return attribute.ObjectPointer(name, nested(description),
		func(c *kube.Connection) **kube.Exec { return &c.Exec },
		attribute.Text("api_version",
			attribute.Required("API version of the `ExecCredential`: `client.authentication.k8s.io/v1` or "+
				"`client.authentication.k8s.io/v1beta1`.", stringvalidator.OneOf("client.authentication.k8s.io/v1",
				"client.authentication.k8s.io/v1beta1")),
			func(e *kube.Exec) *string { return &e.APIVersion }),
		attribute.Text("command", attribute.Required("Program to run.", notEmpty()),
			func(e *kube.Exec) *string { return &e.Command }),
		attribute.TextList("args",
			schema.ListAttribute{MarkdownDescription: "Arguments of the program.", Optional: true},
			func(e *kube.Exec) *[]string { return &e.Args }),
		attribute.TextMap("env",
			schema.MapAttribute{MarkdownDescription: "Environment variables to set for the program.", Optional: true},
			func(e *kube.Exec) *map[string]string { return &e.Env }))
}

func impersonateField(name, description string) field {
	return attribute.ObjectPointer(name, nested(description),
		func(c *kube.Connection) **kube.Impersonate { return &c.Impersonate },
		attribute.Text("user", attribute.Required("User name, such as `jane` or `system:serviceaccount:ci:deployer`.",
			notEmpty()), func(i *kube.Impersonate) *string { return &i.User }),
		attribute.Text("uid", attribute.Optional("UID of the user."),
			func(i *kube.Impersonate) *string { return &i.UID }),
		attribute.TextList("groups",
			schema.ListAttribute{
				MarkdownDescription: "Groups of the user. Without them the identity has none.", Optional: true,
			},
			func(i *kube.Impersonate) *[]string { return &i.Groups }),
		attribute.Code("extra",
			schema.MapAttribute{
				MarkdownDescription: "Further fields of the identity, each with its values.", Optional: true,
				ElementType: types.ListType{ElemType: types.StringType},
			},
			func(value types.Map, i *kube.Impersonate) { i.Extra = attribute.As[map[string][]string](value) },
			func(*kube.Impersonate) types.Map { return types.Map{} })) // No connection is read back.
}

func nested(description string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{MarkdownDescription: description, Optional: true}
}

// notEmpty keeps an empty text, as of a variable without a value, from counting as
// if nothing was set.
func notEmpty() validator.String {
	return stringvalidator.LengthAtLeast(1)
}

// PrecedenceText documents for the provider's page which source of a value counts.
const PrecedenceText = "A value comes from the provider block, or else from a `MUSTER_*` variable, from the " +
	"`KUBE_*` variables of the provider `kubernetes`, or from `KUBECONFIG`; each attribute names its variables. " +
	"Credentials only go to the server that they are meant for. So `KUBE_*` variables count all together, and only " +
	"where neither the provider block nor a `MUSTER_*` variable names a server; and to a kubeconfig of the provider " +
	"block the environment adds neither a server nor credentials.\n\n" +
	"There is no `ignore_annotations` and no `ignore_labels`: labels and annotations that the configuration does " +
	"not set are never compared."

// environment is the end of the description of an attribute of the provider block.
func (s setting) environment() string {
	var names []string
	for _, name := range []string{s.muster, s.kube} {
		if name != "" {
			names = append(names, "`"+name+"`")
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " Environment: " + strings.Join(names, ", then ") + "."
}
