package addon

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/agentoptions"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Between the model of a deployment configuration and the API's object, there and
// back.

// owned is the configuration as an object of the hub. Whatever somebody else adds to
// it changes how agents run, so it contradicts the configuration.
func (m *deploymentConfigModel) owned() crud.Owned {
	o := crud.Own(m.object(), m.What(), m.Namespace.ValueString()+"/"+m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Places = map[string]string{"spec.proxyConfig": "proxy"}
	o.Discreet = m.Proxy != nil // Its URLs may have passwords.
	o.Write.Unwanted = func(live kube.Object) [][]string {
		config, ok := live.(*v1alpha1.AddOnDeploymentConfig)
		if !ok {
			return nil
		}
		var paths [][]string
		same := sameParts(m.spec(), config.Spec)
		for _, part := range slices.Sorted(maps.Keys(same)) {
			if !same[part] {
				paths = append(paths, []string{"spec", part})
			}
		}
		return paths
	}
	return o
}

// sameParts tells which parts of two specifications mean the same, by their fields.
func sameParts(a, b v1alpha1.AddOnDeploymentConfigSpec) map[string]bool {
	return map[string]bool{
		"customizedVariables":   maps.Equal(variablesOf(a), variablesOf(b)),
		"nodePlacement":         attribute.Same(orNone(a.NodePlacement), orNone(b.NodePlacement)),
		"registries":            attribute.Same(a.Registries, b.Registries),
		"proxyConfig":           attribute.Same(a.ProxyConfig, b.ProxyConfig),
		"agentInstallNamespace": installNamespaceOf(a) == installNamespaceOf(b),
		"resourceRequirements":  attribute.Same(a.ResourceRequirements, b.ResourceRequirements),
	}
}

func orNone(p *v1alpha1.NodePlacement) v1alpha1.NodePlacement {
	if p == nil {
		return v1alpha1.NodePlacement{}
	}
	return *p
}

// installNamespaceOf is the namespace that a hub reads out of a specification.
func installNamespaceOf(spec v1alpha1.AddOnDeploymentConfigSpec) string {
	if spec.AgentInstallNamespace == nil {
		return addon.DefaultInstallNamespace
	}
	return *spec.AgentInstallNamespace
}

func variablesOf(spec v1alpha1.AddOnDeploymentConfigSpec) map[string]string {
	variables := map[string]string{}
	for _, v := range spec.CustomizedVariables {
		variables[v.Name] = v.Value
	}
	return variables
}

func (m *deploymentConfigModel) object() *v1alpha1.AddOnDeploymentConfig {
	object := &v1alpha1.AddOnDeploymentConfig{Spec: m.spec()}
	object.Namespace, object.Name = m.Key()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	return object
}

func (m *deploymentConfigModel) spec() v1alpha1.AddOnDeploymentConfigSpec {
	spec := v1alpha1.AddOnDeploymentConfigSpec{NodePlacement: m.NodePlacement.placement(), ProxyConfig: m.Proxy.config()}
	variables := attribute.StringMap(m.Variables)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		spec.CustomizedVariables = append(spec.CustomizedVariables, v1alpha1.CustomizedVariable{Name: name, Value: variables[name]})
	}
	for _, r := range m.Registries {
		spec.Registries = append(spec.Registries, v1alpha1.ImageMirror{Source: r.Source.ValueString(), Mirror: r.Mirror.ValueString()})
	}
	if !m.InstallNamespace.IsNull() && !m.InstallNamespace.IsUnknown() {
		namespace := m.InstallNamespace.ValueString() // "" is not the same as nothing.
		spec.AgentInstallNamespace = &namespace
	}
	for _, c := range m.ResourceRequirements {
		requirements := v1alpha1.ContainerResourceRequirements{ContainerID: c.ContainerID.ValueString()}
		if resources := agentoptions.Of(map[string]attr.Value{"resources": c.Resources}).Resources; resources != nil {
			requirements.Resources = *resources
		}
		spec.ResourceRequirements = append(spec.ResourceRequirements, requirements)
	}
	return spec
}

func (m *nodePlacementModel) placement() *v1alpha1.NodePlacement {
	if m == nil {
		return nil
	}
	options := agentoptions.Of(map[string]attr.Value{"node_selector": m.NodeSelector, "tolerations": m.Tolerations})
	return &v1alpha1.NodePlacement{NodeSelector: options.NodeSelector, Tolerations: options.Tolerations}
}

func (m *proxyModel) config() v1alpha1.ProxyConfig {
	if m == nil {
		return v1alpha1.ProxyConfig{}
	}
	return v1alpha1.ProxyConfig{
		HTTPProxy: m.HTTP.ValueString(), HTTPSProxy: m.HTTPS.ValueString(),
		NoProxy: strings.Join(attribute.StringList(m.NoProxy), ","), CABundle: []byte(m.CABundle.ValueString()),
	}
}

// observe brings up to date what the model owns, and keeps its wording where it means
// the same as what the hub has.
func (m *deploymentConfigModel) observe(object *v1alpha1.AddOnDeploymentConfig) {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	live := readDeploymentConfig(object.Spec)
	same := sameParts(m.spec(), object.Spec)
	if !same["customizedVariables"] {
		m.Variables = live.Variables
	}
	if !same["nodePlacement"] {
		m.NodePlacement = live.NodePlacement
	}
	if !same["registries"] {
		m.Registries = live.Registries
	}
	if !same["proxyConfig"] {
		m.Proxy = live.Proxy
	}
	if !same["agentInstallNamespace"] {
		m.InstallNamespace = live.InstallNamespace
	}
	if !same["resourceRequirements"] {
		m.ResourceRequirements = live.ResourceRequirements
	}
}

// readDeploymentConfig is the model of a specification, with null for what it does
// not say.
func readDeploymentConfig(spec v1alpha1.AddOnDeploymentConfigSpec) *deploymentConfigModel {
	m := &deploymentConfigModel{
		Variables:        types.MapNull(types.StringType),
		InstallNamespace: types.StringValue(installNamespaceOf(spec)),
	}
	if len(spec.CustomizedVariables) > 0 {
		m.Variables = attribute.StringMapValue(variablesOf(spec))
	}
	if p := spec.NodePlacement; p != nil {
		values := agentoptions.Values(musterv1alpha1.AgentOptions{NodeSelector: p.NodeSelector, Tolerations: p.Tolerations}, "node_selector", "tolerations")
		m.NodePlacement = &nodePlacementModel{NodeSelector: values["node_selector"].(types.Map), Tolerations: values["tolerations"].(types.List)}
	}
	for _, r := range spec.Registries {
		m.Registries = append(m.Registries, registryModel{Source: attribute.OptionalString(r.Source), Mirror: types.StringValue(r.Mirror)})
	}
	if p := spec.ProxyConfig; p.HTTPProxy+p.HTTPSProxy+p.NoProxy != "" || len(p.CABundle) > 0 {
		m.Proxy = &proxyModel{
			HTTP: attribute.OptionalString(p.HTTPProxy), HTTPS: attribute.OptionalString(p.HTTPSProxy),
			NoProxy:  attribute.StringListValue(noProxyOf(p.NoProxy)),
			CABundle: attribute.OptionalString(strings.ToValidUTF8(string(p.CABundle), "\uFFFD")),
		}
	}
	for _, c := range spec.ResourceRequirements {
		values := agentoptions.Values(musterv1alpha1.AgentOptions{Resources: &c.Resources}, "resources")
		m.ResourceRequirements = append(m.ResourceRequirements, containerRequirements{
			ContainerID: types.StringValue(c.ContainerID), Resources: values["resources"].(types.Object),
		})
	}
	return m
}

// noProxyOf are the parts of a list separated by commas; nil when there are none.
func noProxyOf(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func importDeploymentConfig(object *v1alpha1.AddOnDeploymentConfig) *deploymentConfigModel {
	owned := ownership.Of(object, hub.FieldManager)
	m := readDeploymentConfig(object.Spec)
	m.Namespace, m.Name = types.StringValue(object.Namespace), types.StringValue(object.Name)
	m.Labels = attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true })
	m.Annotations = attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, attribute.ImportableAnnotation)
	m.Timeouts = attribute.NullTimeouts("delete")
	return m
}
