package addon

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// configObject is one element of configs; a field that is "-" is null.
func configObject(group, resource, namespace, name string) attr.Value {
	of := func(value string) attr.Value {
		switch value {
		case "-":
			return types.StringNull()
		case "?":
			return types.StringUnknown()
		}
		return types.StringValue(value)
	}
	values := map[string]attr.Value{"group": of(group), "resource": of(resource), "namespace": of(namespace), "name": of(name)}
	return types.ObjectValueMust(map[string]attr.Type{
		"group": types.StringType, "resource": types.StringType, "namespace": types.StringType, "name": types.StringType,
	}, values)
}

func TestWhatIsPointlessInConfigsIsRefused(t *testing.T) {
	template := configObject("-", addon.TemplateResource, "-", "t")
	for name, test := range map[string]struct {
		configs []attr.Value
		want    string
	}{
		"none":                  {nil, "configs = [] names no configuration"},
		"a template and more":   {[]attr.Value{template, configObject("-", addon.DeploymentConfigResource, "n", "c")}, ""},
		"two of another kind":   {[]attr.Value{configObject("", "configmaps", "n", "a"), configObject("", "configmaps", "n", "b")}, ""},
		"the same object twice": {[]attr.Value{template, configObject(addon.GroupName, addon.TemplateResource, "-", "t")}, "configs[0] and configs[1] name the same object"},
		"two templates":         {[]attr.Value{template, configObject("-", addon.TemplateResource, "-", "u")}, "configs[0] and configs[1] both name a template"},
		"a template's namespace": {[]attr.Value{configObject("-", addon.TemplateResource, "n", "t")},
			`configs[0].namespace is "n", but templates of add-ons have no namespace`},
		"a deployment configuration without one": {[]attr.Value{configObject("-", addon.DeploymentConfigResource, "-", "c")},
			"configs[0] names a deployment configuration, and these have namespaces"},
		"another group's deployment configuration": {[]attr.Value{configObject("example.com", addon.DeploymentConfigResource, "-", "c")}, ""},
		"a namespace that is not known yet":        {[]attr.Value{configObject("-", addon.DeploymentConfigResource, "?", "c")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kind := configObject("-", "-", "-", "-").Type(t.Context())
			resp := validator.ListResponse{}
			validConfigs().ValidateList(t.Context(), validator.ListRequest{Path: path.Root("configs"), ConfigValue: types.ListValueMust(kind, test.configs)}, &resp)
			switch {
			case test.want == "" && resp.Diagnostics.HasError():
				t.Errorf("refused: %s", resp.Diagnostics)
			case test.want != "" && (len(resp.Diagnostics) != 1 || !strings.Contains(resp.Diagnostics[0].Detail(), test.want)):
				t.Errorf("got %s, want %q", resp.Diagnostics, test.want)
			}
		})
	}
}

func TestKindsOfConfigurationsAreNamedAsTheAPIHasThem(t *testing.T) {
	for _, test := range []struct {
		validator        validator.String
		text, wantDetail string
	}{
		{validResource(), addon.TemplateResource, ""},
		{validResource(), "configmaps", ""},
		{validResource(), "AddOnTemplate", `configs.x is "AddOnTemplate", but it takes the plural name of a kind in lower case, such as addontemplates. Write "addontemplates".`},
		{validResource(), "addondeploymentconfig", `Write "addondeploymentconfigs".`},
		{validResource(), "Config Maps", "kubectl api-resources prints them"},
		{validResource(), "", "kubectl api-resources prints them"},
		{validGroup(), "", ""},
		{validGroup(), addon.GroupName, ""},
		{validGroup(), addon.GroupName + "/v1alpha1", `Write "addon.open-cluster-management.io"; the version v1alpha1 is not needed.`},
		{validGroup(), "v1", `configs.x is "v1", but it takes an API group such as `},
		{validGroup(), "v1", `without a version, or "" for the core group. Write "" for the core group.`},
		{validGroup(), "Example.com", `configs.x is "Example.com", but it takes an API group`},
	} {
		resp := validator.StringResponse{}
		test.validator.ValidateString(t.Context(), validator.StringRequest{Path: path.Root("configs").AtName("x"), ConfigValue: types.StringValue(test.text)}, &resp)
		got := ""
		for _, d := range resp.Diagnostics {
			got += d.Detail()
		}
		if (test.wantDetail == "") != (got == "") || !strings.Contains(got, test.wantDetail) {
			t.Errorf("%q: got %q, want %q", test.text, got, test.wantDetail)
		}
	}
}

func TestConfigsGoToTheAPIAndBack(t *testing.T) {
	table := attribute.Table[clusterAddOn]{
		configsField("", func(x clusterAddOn) *[]v1alpha1.AddOnConfig { return &x.Spec.Configs }),
	}
	there := func(configs attr.Value) attr.Value {
		x := &v1alpha1.ManagedClusterAddOn{}
		table.Write(attribute.Values{"configs": configs}, x)
		return table.Read(x)["configs"]
	}
	list := types.ListValueMust(configObject("", "", "", "").Type(t.Context()), []attr.Value{
		configObject(addon.GroupName, addon.TemplateResource, "-", "t"), configObject("", "configmaps", "n", "c"),
	})
	if back := there(list); !back.Equal(list) {
		t.Errorf("got %v, want %v", back, list)
	}
	if back := there(attribute.Null(list.Type(t.Context()))); !back.IsNull() {
		t.Errorf("no configurations have become %v", back)
	}
}
