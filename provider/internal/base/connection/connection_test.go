package connection

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// block is a provider block with these attributes; the others are null.
func block(t *testing.T, values map[string]tftypes.Value) Model {
	t.Helper()
	schema := providerschema.Schema{Attributes: ProviderAttributes()}
	object, _ := schema.Type().TerraformType(t.Context()).(tftypes.Object)
	all := map[string]tftypes.Value{}
	for name, kind := range object.AttributeTypes {
		all[name] = tftypes.NewValue(kind, nil)
	}
	for name, value := range values {
		if !value.IsKnown() {
			value = tftypes.NewValue(object.AttributeTypes[name], tftypes.UnknownValue)
		}
		all[name] = value
	}
	var diags diag.Diagnostics
	m := attribute.ValuesOf(t.Context(), tfsdk.Config{Schema: schema, Raw: tftypes.NewValue(object, all)}, &diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	return Model(m)
}

func textValue(value string) tftypes.Value { return tftypes.NewValue(tftypes.String, value) }
func flagValue(value bool) tftypes.Value   { return tftypes.NewValue(tftypes.Bool, value) }
func listValue(values ...string) tftypes.Value {
	var elements []tftypes.Value
	for _, value := range values {
		elements = append(elements, textValue(value))
	}
	return tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, elements)
}

var unknown = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)

func execValue(command string) tftypes.Value {
	list, env := tftypes.List{ElementType: tftypes.String}, tftypes.Map{ElementType: tftypes.String}
	return tftypes.NewValue(tftypes.Object{AttributeTypes: map[string]tftypes.Type{"api_version": tftypes.String, "command": tftypes.String, "args": list, "env": env}},
		map[string]tftypes.Value{"api_version": textValue("client.authentication.k8s.io/v1"), "command": textValue(command), "args": listValue("a"), "env": tftypes.NewValue(env, nil)})
}

type values = map[string]tftypes.Value

func TestEnvironment(t *testing.T) {
	from := func(name string) string { return "the environment variable " + name }
	for name, test := range map[string]struct {
		config      values
		environment map[string]string
		want        kube.Connection
		refused     string
	}{
		"nothing": {},
		"ambient kubeconfig": {environment: map[string]string{"KUBECONFIG": "/ambient"},
			want: kube.Connection{KubeconfigPath: "/ambient", Origin: from("KUBECONFIG")}},
		"the provider's own first": {environment: map[string]string{"KUBECONFIG": "/ambient", "KUBE_CONFIG_PATH": "/theirs", "MUSTER_KUBECONFIG": "/mine"},
			want: kube.Connection{KubeconfigPath: "/mine", Origin: from("MUSTER_KUBECONFIG")}},
		"then the Kubernetes provider's": {environment: map[string]string{"KUBECONFIG": "/ambient", "KUBE_CONFIG_PATH": "/theirs", "KUBE_CTX": "c", "KUBE_CTX_CLUSTER": "k", "KUBE_CTX_AUTH_INFO": "u"},
			want: kube.Connection{KubeconfigPath: "/theirs", Context: "c", ContextCluster: "k", ContextUser: "u", Origin: from("KUBE_CONFIG_PATH")}},
		"several files": {environment: map[string]string{"KUBE_CONFIG_PATHS": "/a:/b"},
			want: kube.Connection{KubeconfigPaths: []string{"/a", "/b"}, Origin: from("KUBE_CONFIG_PATHS")}},
		"a host and all that belongs to it": {
			environment: map[string]string{"KUBECONFIG": "/ambient", "KUBE_HOST": "https://theirs", "KUBE_TOKEN": "t", "KUBE_CLUSTER_CA_CERT_DATA": "ca", "KUBE_TLS_SERVER_NAME": "n", "KUBE_PROXY_URL": "http://p", "KUBE_INSECURE": "false"},
			want:        kube.Connection{Host: "https://theirs", Token: "t", CA: "ca", TLSServerName: "n", ProxyURL: "http://p"},
		},
		"user and password": {environment: map[string]string{"KUBE_HOST": "https://theirs", "KUBE_USER": "u", "KUBE_PASSWORD": "p"},
			want: kube.Connection{Host: "https://theirs", Username: "u", Password: "p"}},
		"certificate": {environment: map[string]string{"KUBE_HOST": "https://theirs", "KUBE_CLIENT_CERT_DATA": "c", "KUBE_CLIENT_KEY_DATA": "k", "KUBE_INSECURE": "1"},
			want: kube.Connection{Host: "https://theirs", ClientCertificate: "c", ClientKey: "k", Insecure: true}},
		"own host": {environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret"},
			want: kube.Connection{Host: "https://env", Token: "secret"}},
		"in a pod": {environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_IN_CLUSTER": "true"}, want: kube.Connection{InCluster: true, Origin: from("MUSTER_IN_CLUSTER")}},
		"not in a pod": {environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_IN_CLUSTER": "false"},
			want: kube.Connection{KubeconfigPath: "/ambient", Origin: from("KUBECONFIG")}},

		// Credentials for one server are never sent to another.
		"another provider's token and an ambient kubeconfig": {environment: map[string]string{"KUBECONFIG": "/ambient", "KUBE_TOKEN": "theirs"},
			want: kube.Connection{KubeconfigPath: "/ambient", Origin: from("KUBECONFIG")}},
		"another provider's variables and a configured host": {config: values{"host": textValue("https://hcl")}, environment: map[string]string{"KUBE_HOST": "https://theirs", "KUBE_TOKEN": "theirs", "KUBE_INSECURE": "true"},
			want: kube.Connection{Host: "https://hcl"}},
		"another provider's variables and the own host": {environment: map[string]string{"MUSTER_HOST": "https://mine", "KUBE_HOST": "https://theirs", "KUBE_TOKEN": "theirs"},
			want: kube.Connection{Host: "https://mine"}},
		"another provider's context and a configured kubeconfig": {config: values{"config_path": textValue("/hcl")}, environment: map[string]string{"KUBE_CTX": "theirs"},
			want: kube.Connection{KubeconfigPath: "/hcl"}},
		"own token and a configured kubeconfig": {config: values{"kubeconfig_path": textValue("/hcl")}, environment: map[string]string{"MUSTER_TOKEN": "secret", "MUSTER_HOST": "https://env", "MUSTER_CONTEXT": "ctx"},
			want: kube.Connection{KubeconfigPath: "/hcl", Context: "ctx"}},
		"own token and a configured host": {config: values{"host": textValue("https://hcl")}, environment: map[string]string{"MUSTER_TOKEN": "secret", "MUSTER_CONTEXT": "ctx"},
			want: kube.Connection{Host: "https://hcl", Token: "secret"}},
		"own token without a server": {environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_TOKEN": "secret"}, refused: "MUSTER_TOKEN is set, and neither"},
		"host and kubeconfig":        {environment: map[string]string{"MUSTER_HOST": "https://env", "MUSTER_KUBECONFIG": "/mine"}, refused: "MUSTER_KUBECONFIG and MUSTER_HOST are set"},
		"another provider's host and kubeconfig": {environment: map[string]string{"KUBE_HOST": "https://env", "KUBE_CONFIG_PATH": "/theirs", "KUBE_CONFIG_PATHS": "/x"},
			refused: "KUBE_CONFIG_PATH, KUBE_CONFIG_PATHS and KUBE_HOST are set"},
		"a switch that is neither": {environment: map[string]string{"MUSTER_HOST": "https://env", "MUSTER_INSECURE": "maybe"}, refused: `MUSTER_INSECURE is "maybe"`},
		"one credential only": {config: values{"client_certificate": textValue("c"), "client_key": textValue("k")}, environment: map[string]string{"MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret"},
			want: kube.Connection{Host: "https://env", ClientCertificate: "c", ClientKey: "k"}},
		"a program is a credential": {config: values{"host": textValue("https://hcl"), "exec": execValue("x")}, environment: map[string]string{"MUSTER_TOKEN": "secret"},
			want: kube.Connection{Host: "https://hcl", Exec: &kube.Exec{APIVersion: "client.authentication.k8s.io/v1", Command: "x", Args: []string{"a"}}}},
		"configuration over environment": {config: values{"host": textValue("https://hcl"), "token": textValue("hcl")}, environment: map[string]string{"MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret"},
			want: kube.Connection{Host: "https://hcl", Token: "hcl"}},
		"a configured token for the environment's server": {config: values{"token": textValue("hcl")}, environment: map[string]string{"KUBE_HOST": "https://theirs", "KUBE_USER": "u", "KUBE_PASSWORD": "p"},
			want: kube.Connection{Host: "https://theirs", Token: "hcl"}},
		"a configured context in the environment's kubeconfig": {config: values{"config_context": textValue("hcl")}, environment: map[string]string{"KUBE_CONFIG_PATH": "/theirs", "KUBE_CTX": "env", "MUSTER_CONTEXT": "mine"},
			want: kube.Connection{KubeconfigPath: "/theirs", Context: "hcl", Origin: from("KUBE_CONFIG_PATH")}},
		"an unknown host is not replaced": {config: values{"host": unknown}, environment: map[string]string{"KUBECONFIG": "/a", "MUSTER_HOST": "https://env", "KUBE_HOST": "https://k", "KUBE_TOKEN": "t"}},
		"in_cluster takes nothing else":   {config: values{"in_cluster": flagValue(true)}, environment: map[string]string{"MUSTER_TOKEN": "t", "MUSTER_PROXY_URL": "http://p"}, want: kube.Connection{InCluster: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var diags diag.Diagnostics
			got := block(t, test.config).WithEnvironment(func(key string) string { return test.environment[key] }, &diags)
			if test.refused != "" {
				if !diags.HasError() || !strings.Contains(diags.Errors()[0].Detail(), test.refused) {
					t.Errorf("got %+v and %v, want it to say %q", got, diags, test.refused)
				}
				return
			}
			if diags.HasError() || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v and %v\nwant %+v", got, diags, test.want)
			}
		})
	}
}

func TestAttributesThatExcludeEachOther(t *testing.T) {
	for name, test := range map[string]struct {
		config values
		want   string
	}{
		"nothing":                    {},
		"a kubeconfig and a context": {config: values{"config_path": textValue("a"), "config_context": textValue("b"), "token": textValue("c"), "host": textValue("d")}},
		"two names of a path":        {values{"config_path": textValue("a"), "kubeconfig_path": textValue("a")}, "config_path and kubeconfig_path are both set, and are two names for one thing"},
		"two names of a context":     {values{"config_path": textValue("a"), "config_context": textValue("a"), "context": textValue("a")}, "config_context and context are both set"},
		"path and paths":             {values{"config_path": textValue("a"), "config_paths": listValue("a")}, "config_path and config_paths are both set"},
		"path and content":           {values{"kubeconfig_path": textValue("a"), "kubeconfig": textValue("a")}, "kubeconfig_path and kubeconfig are both set"},
		"token and user":             {values{"token": textValue("a"), "username": textValue("a"), "password": textValue("b")}, "token and username are both set, and each is a credential of its own"},
		"token and program":          {values{"token": textValue("a"), "exec": execValue("x")}, "token and exec are both set"},
		"user without password":      {values{"username": textValue("a")}, "username is set and password is not"},
		"key without certificate":    {values{"client_key": textValue("a")}, "client_key is set and client_certificate is not"},
		"insecure and authority":     {values{"insecure": flagValue(true), "cluster_ca_certificate": textValue("a")}, "insecure and cluster_ca_certificate are both set"},
		"secure with authority":      {config: values{"insecure": flagValue(false), "cluster_ca_certificate": textValue("a")}},
		"pod and host":               {values{"in_cluster": flagValue(true), "host": textValue("a")}, "in_cluster and host are both set"},
		"pod and token":              {values{"in_cluster": flagValue(true), "token": textValue("a")}, "in_cluster and token are both set"},
		"not the pod, but a host":    {config: values{"in_cluster": flagValue(false), "host": textValue("a")}},
		"host and context":           {values{"host": textValue("a"), "config_context_cluster": textValue("a")}, "config_context_cluster chooses in a kubeconfig, and there is none"},
		"empty is not set":           {config: values{"token": textValue(""), "username": textValue("a"), "password": textValue("b"), "context": textValue("")}},
		"unknown may be null":        {config: values{"token": unknown, "username": textValue("a"), "password": unknown, "config_path": unknown, "kubeconfig": textValue("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			var diags diag.Diagnostics
			block(t, test.config).Check(&diags)
			var said []string
			for _, d := range diags {
				said = append(said, d.Detail())
			}
			if (len(said) == 0) != (test.want == "") || len(said) > 1 || !strings.Contains(strings.Join(said, "\n"), test.want) {
				t.Errorf("got %q, want %q", said, test.want)
			}
		})
	}
}

func TestAResourcesConnectionNamesItsServer(t *testing.T) {
	attribute := ResourceAttribute("")
	for name, test := range map[string]struct {
		config values
		want   string
	}{
		"none":    {values{"token": textValue("a")}, "Nothing says where the API server is"},
		"host":    {config: values{"host": textValue("a")}},
		"pod":     {config: values{"in_cluster": flagValue(true)}},
		"unknown": {config: values{"config_path": unknown}},
		"paths":   {config: values{"config_paths": listValue("a")}},
		"context": {values{"config_context": textValue("a"), "host": textValue("b")}, "config_context chooses in a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			object, _ := attribute.GetType().TerraformType(t.Context()).(tftypes.Object)
			all := map[string]tftypes.Value{}
			for name, kind := range object.AttributeTypes {
				all[name] = tftypes.NewValue(kind, nil)
			}
			for name, value := range test.config {
				all[name] = value
			}
			value, err := attribute.GetType().ValueFromTerraform(t.Context(), tftypes.NewValue(object, all))
			if err != nil {
				t.Fatal(err)
			}
			resp := validator.ObjectResponse{}
			for _, v := range attribute.Validators {
				v.ValidateObject(t.Context(), validator.ObjectRequest{ConfigValue: value.(types.Object)}, &resp)
			}
			if (len(resp.Diagnostics) == 0) != (test.want == "") || (test.want != "" && !strings.Contains(resp.Diagnostics[0].Detail(), test.want)) {
				t.Errorf("got %v, want %q", resp.Diagnostics, test.want)
			}
		})
	}
}

func TestUnknownAttributesAreNamed(t *testing.T) {
	m := block(t, values{"host": unknown, "token": unknown, "exec": unknown, "config_paths": unknown, "cluster_ca_certificate": textValue("x")})
	if got := m.Unknown(); !slices.Equal(got, []string{"config_paths", "exec", "host", "token"}) {
		t.Errorf("got %q", got)
	}
}

func TestAConnectionIsAnAttributeAndBack(t *testing.T) {
	value := AtPath(types.StringValue("/k"), types.StringNull()).Object()
	if !attribute.Known(value) {
		t.Fatal("it does not fit the schema")
	}
	if back := Of(value); back == nil || back.Path().ValueString() != "/k" || !back.Object().Equal(value) {
		t.Errorf("got %+v", back)
	}
	for _, nothing := range []types.Object{types.ObjectUnknown(value.AttributeTypes(t.Context())), types.ObjectNull(value.AttributeTypes(t.Context()))} {
		if Of(nothing) != nil {
			t.Errorf("a connection came out of %s", nothing)
		}
	}
}

// Each attribute leads to a field of its own, but for two names of one thing.
func TestEverySettingHasItsPlaceInTheConnection(t *testing.T) {
	for _, s := range settings() {
		if s.object != nil {
			continue
		}
		var value attr.Value = types.StringValue("here")
		if s.flag != nil {
			value = types.BoolValue(true)
		}
		var c kube.Connection
		table(false).Write(attribute.Values{s.name: value}, &c)
		for name, got := range table(false).Read(&c) {
			its := name == s.name || name == s.same
			if of := value.Type(t.Context()); got.Type(t.Context()).Equal(of) && its != got.Equal(value) {
				t.Errorf("%s leads to %s = %s", s.name, name, got)
			}
		}
	}
}
