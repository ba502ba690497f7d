package connection

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

func TestEnvironment(t *testing.T) {
	all := map[string]string{
		"KUBECONFIG": "/ambient", "MUSTER_KUBECONFIG": "/mine", "MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret", "MUSTER_CONTEXT": "ctx", "MUSTER_INSECURE": "true",
	}
	for name, test := range map[string]struct {
		config      Model
		environment map[string]string
		want        kube.Connection
	}{
		"nothing":                          {want: kube.Connection{}},
		"ambient kubeconfig":               {environment: map[string]string{"KUBECONFIG": "/ambient"}, want: kube.Connection{KubeconfigPath: "/ambient"}},
		"own kubeconfig goes first":        {environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_KUBECONFIG": "/mine"}, want: kube.Connection{KubeconfigPath: "/mine"}},
		"host instead of ambient":          {environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret"}, want: kube.Connection{Host: "https://env", Token: "secret"}},
		"configuration over environment":   {config: Model{Host: types.StringValue("https://hcl"), Token: types.StringValue("hcl")}, environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_HOST": "https://env", "MUSTER_TOKEN": "secret"}, want: kube.Connection{Host: "https://hcl", Token: "hcl"}},
		"configured kubeconfig stays pure": {config: Model{KubeconfigPath: types.StringValue("/hcl")}, environment: map[string]string{"KUBECONFIG": "/ambient", "MUSTER_HOST": "https://env"}, want: kube.Connection{KubeconfigPath: "/hcl"}},
		"unknown host is not replaced":     {config: Model{Host: types.StringUnknown()}, environment: all, want: kube.Connection{Context: "ctx", Token: "secret", Insecure: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.config.WithEnvironment(func(key string) string { return test.environment[key] }).Connection()
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestUnknownAttributesAreNamed(t *testing.T) {
	model := Model{Host: types.StringUnknown(), Token: types.StringUnknown(), CA: types.StringValue("x")}
	if got := model.Unknown(); !slices.Equal(got, []string{"host", "token"}) {
		t.Errorf("got %q", got)
	}
}
