package connection

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
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

// kind is the type of an attribute.
type kind int

const (
	text kind = iota
	flag
	texts
	textMap
	textsMap
	object
)

// setting is one attribute of a connection.
type setting struct {
	name, description string
	part              part
	kind              kind
	sensitive         bool
	required          bool
	// muster and kube are the environment variables that stand in for it: the
	// provider's own, and that of the Kubernetes provider.
	muster, kube string
	// same is another name for the same thing.
	same string
	// with is what has to be set too.
	with       string
	validators []validator.String
	nested     []setting
	// field is where the model has it; for texts.
	field func(*Model) *types.String
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
			field:      func(m *Model) *types.String { return &m.KubeconfigPath },
			description: "Path of a kubeconfig file. A leading `~/` stands for the home directory; several files are " +
				"separated as in " +
				"`KUBECONFIG`. The file is read when it is first needed, so another resource may write it.",
		},
		{
			name: "config_path", part: server, kube: "KUBE_CONFIG_PATH", same: "kubeconfig_path",
			validators:  []validator.String{notEmpty()},
			field:       func(m *Model) *types.String { return &m.ConfigPath },
			description: "The same as `kubeconfig_path`, by the name that it has in the provider `kubernetes`.",
		},
		{
			name: "config_paths", part: server, kind: texts, kube: "KUBE_CONFIG_PATHS",
			description: "Paths of several kubeconfig files to merge. Each has to exist.",
		},
		{
			name: "kubeconfig", part: server, sensitive: true,
			validators:  []validator.String{notEmpty()},
			field:       func(m *Model) *types.String { return &m.Kubeconfig },
			description: "Content of a kubeconfig, for example from another provider's output.",
		},
		{
			name: "in_cluster", part: server, kind: flag, muster: "MUSTER_IN_CLUSTER",
			description: "Use the server and the service account of the pod that Terraform runs in. Its token is " +
				"read again when it is renewed.",
		},
		{
			name: "host", part: server, muster: "MUSTER_HOST", kube: "KUBE_HOST",
			validators: []validator.String{attribute.ValidURL()},
			field:      func(m *Model) *types.String { return &m.Host },
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
			field:       func(m *Model) *types.String { return &m.Context },
			description: "Context of the kubeconfig to use instead of its current one.",
		},
		{
			name: "config_context", part: choice, kube: "KUBE_CTX", same: "context",
			field:       func(m *Model) *types.String { return &m.ConfigContext },
			description: "The same as `context`, by the name that it has in the provider `kubernetes`.",
		},
		{
			name: "config_context_cluster", part: choice, muster: "MUSTER_CONTEXT_CLUSTER", kube: "KUBE_CTX_CLUSTER",
			field:       func(m *Model) *types.String { return &m.ContextCluster },
			description: "Cluster of the kubeconfig to use instead of the context's.",
		},
		{
			name: "config_context_auth_info", part: choice,
			muster: "MUSTER_CONTEXT_AUTH_INFO", kube: "KUBE_CTX_AUTH_INFO",
			field:       func(m *Model) *types.String { return &m.ContextUser },
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
			field:       func(m *Model) *types.String { return &m.CA },
			description: "PEM certificates of the authorities that vouch for the server.",
		},
		{
			name: "tls_server_name", part: route, muster: "MUSTER_TLS_SERVER_NAME", kube: "KUBE_TLS_SERVER_NAME",
			field:       func(m *Model) *types.String { return &m.TLSServerName },
			description: "Name to expect in the server's certificate, where it differs from the host.",
		},
		{
			name: "insecure", part: route, kind: flag, muster: "MUSTER_INSECURE", kube: "KUBE_INSECURE",
			description: "Skip the verification of the server's certificate. For experiments only.",
		},
		{
			name: "proxy_url", part: route, muster: "MUSTER_PROXY_URL", kube: "KUBE_PROXY_URL",
			validators:  []validator.String{attribute.ValidURL()},
			field:       func(m *Model) *types.String { return &m.ProxyURL },
			description: "URL of an HTTP, HTTPS or SOCKS5 proxy to go through.",
		},
	}
}

// credentialSettings are about who is asking.
func credentialSettings() []setting {
	return []setting{
		{
			name: "token", part: credentials, sensitive: true, muster: "MUSTER_TOKEN", kube: "KUBE_TOKEN",
			field: func(m *Model) *types.String { return &m.Token },
			description: "Bearer token. Like all credentials that are set here, it replaces those of the kubeconfig " +
				"as a whole.",
		},
		{
			name: "client_certificate", part: credentials, with: "client_key",
			muster: "MUSTER_CLIENT_CERTIFICATE", kube: "KUBE_CLIENT_CERT_DATA",
			validators:  []validator.String{attribute.ValidPEM()},
			field:       func(m *Model) *types.String { return &m.ClientCertificate },
			description: "PEM client certificate.",
		},
		{
			name: "client_key", part: credentials, sensitive: true, with: "client_certificate",
			muster: "MUSTER_CLIENT_KEY", kube: "KUBE_CLIENT_KEY_DATA",
			validators:  []validator.String{attribute.ValidPEM()},
			field:       func(m *Model) *types.String { return &m.ClientKey },
			description: "PEM key of the client certificate.",
		},
		{
			name: "username", part: credentials, with: "password", muster: "MUSTER_USER", kube: "KUBE_USER",
			field: func(m *Model) *types.String { return &m.Username },
			description: "User name for HTTP basic authentication, which Kubernetes itself no longer has but proxies " +
				"may.",
		},
		{
			name: "password", part: credentials, sensitive: true, with: "username",
			muster: "MUSTER_PASSWORD", kube: "KUBE_PASSWORD",
			field:       func(m *Model) *types.String { return &m.Password },
			description: "Password for HTTP basic authentication.",
		},
		{
			name: "exec", part: credentials, kind: object,
			nested: execSettings(),
			description: "Program that prints credentials as an `ExecCredential` object, as in a kubeconfig. It runs " +
				"again when they expire, " +
				"without a terminal; what it writes to its standard error is in the message when it fails.",
		},
		{
			name: "impersonate", part: identity, kind: object,
			nested: impersonateSettings(),
			description: "Identity to act as, like `--as` of kubectl. The credentials need the right to impersonate " +
				"it.",
		},
	}
}

func execSettings() []setting {
	return []setting{
		{name: "api_version", required: true,
			validators: []validator.String{stringvalidator.OneOf("client.authentication.k8s.io/v1",
				"client.authentication.k8s.io/v1beta1")},
			description: "API version of the `ExecCredential`: `client.authentication.k8s.io/v1` or " +
				"`client.authentication.k8s.io/v1beta1`."},
		{name: "command", required: true, validators: []validator.String{notEmpty()}, description: "Program to run."},
		{name: "args", kind: texts, description: "Arguments of the program."},
		{name: "env", kind: textMap, description: "Environment variables to set for the program."},
	}
}

func impersonateSettings() []setting {
	return []setting{
		{name: "user", required: true, validators: []validator.String{notEmpty()}, description: "User name, such as " +
			"`jane` or `system:serviceaccount:ci:deployer`."},
		{name: "uid", description: "UID of the user."},
		{name: "groups", kind: texts, description: "Groups of the user. Without them the identity has none."},
		{name: "extra", kind: textsMap, description: "Further fields of the identity, each with its values."},
	}
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

func code(name string) string {
	if name == "" {
		return ""
	}
	return "`" + name + "`"
}

// environment is the end of the description of an attribute of the provider block.
func (s setting) environment() string {
	var names []string
	for _, name := range []string{s.muster, s.kube} {
		if name != "" {
			names = append(names, code(name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " Environment: " + strings.Join(names, ", then ") + "."
}
