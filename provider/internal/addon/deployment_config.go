package addon

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

type (
	agentConfig  = *v1alpha1.AddOnDeploymentConfig
	configChange = crud.Change[agentConfig]
)

// DeploymentConfig is muster_addon_deployment_config.
func DeploymentConfig() crud.Declared {
	return &crud.Kind[agentConfig]{
		Type: "addon_deployment_config", Noun: "deployment configuration", Empty: &v1alpha1.AddOnDeploymentConfig{},
		Description: "How the agents of add-ons run: values for variables of a template, nodes, registries, a " +
			"proxy, the namespace, and resources. It takes effect where `configs` of a `muster_addon` or of a " +
			"`muster_cluster_addon` names it; a change then reaches the clusters as the rollout strategy of their " +
			"placement says.\n\n" +
			"Destroying waits until no add-on in a cluster uses it any more, because an add-on that is being " +
			"removed may still need it.",
		Keys: []crud.Key{
			{
				Name: "namespace",
				Description: "Namespace on the hub. It has to exist, for example as a `muster_namespace`. " +
					"Changing it replaces the configuration.",
				Valid: attribute.ValidName("namespace"),
			},
			{
				Name: "name", Description: "Name of the configuration. Changing it replaces the configuration.",
				Valid: attribute.ValidObjectName("configuration name"),
			},
		},
		Table:    deploymentConfigTable(),
		Timeouts: crud.Timeouts{Delete: "deleting, which waits until no add-on uses it,"},
		Hooks: crud.Hooks[agentConfig]{
			Validate: validateDeploymentConfig,
			Own: func(values attribute.Values, o *crud.Owned) {
				o.Discreet = values.IsSet("proxy") // Its URLs may have passwords.
			},
			// Without its configuration an add-on that is on its way out can't finish.
			BeforeDelete: func(ctx context.Context, c *configChange) bool {
				return untilUnused(ctx, c, addon.DeploymentConfigResource)
			},
		},
		List: &crud.List[agentConfig]{
			Plural: "deployment configurations of add-ons", Objects: &v1alpha1.AddOnDeploymentConfigList{},
			Describe: func(config agentConfig) string {
				return crud.Count(len(config.Spec.CustomizedVariables), "variable")
			},
		},
	}
}

func deploymentConfigTable() attribute.Table[agentConfig] {
	return attribute.Table[agentConfig]{
		attribute.LabelsField[agentConfig]("Labels of the configuration."),
		attribute.AnnotationsField[agentConfig]("Annotations of the configuration."),
		attribute.Code("customized_variables", attribute.OptionalTextMap("Values by the names of variables: a "+
			"template has `{{NAME}}` in its manifests where the value of `NAME` goes. Values are put in as they "+
			"are. `CLUSTER_NAME` and `INSTALL_NAMESPACE` are set by the hub, and a value for them here has no effect.",
			mapvalidator.KeysAre(validVariable()),
			mapvalidator.ValueStringsAre(attribute.LengthBetween(0, maxVariable))), setVariables, variablesOf),
		attribute.ObjectPointer("node_placement", attribute.OptionalObject("On which nodes the agents' pods run."),
			func(config agentConfig) **v1alpha1.NodePlacement { return &config.Spec.NodePlacement },
			nodePlacementTable()...).EmptyIsNone(),
		attribute.Objects("registries", attribute.OptionalObjects("Registries from which the agents' images are "+
			"pulled in place of others. Where several entries fit an image, the last one counts. They go before "+
			"those of the managed cluster's annotation."),
			func(config agentConfig) *[]v1alpha1.ImageMirror { return &config.Spec.Registries },
			registryTable()...),
		attribute.Object("proxy", attribute.OptionalObject("Proxy by which the agents reach what is outside of "+
			"their cluster. Each part becomes an environment variable of their containers."),
			func(config agentConfig) *v1alpha1.ProxyConfig { return &config.Spec.ProxyConfig },
			proxyTable()...).At("spec.proxyConfig"),
		attribute.TextPointer("agent_install_namespace", attribute.Defaulted("Namespace of the agents in the "+
			"clusters: all objects of a template that have a namespace get this one. `\"\"` is not the same as "+
			"leaving it out: with `\"\"` the objects keep the namespaces that the template gives them. Defaults to "+
			"`"+addon.DefaultInstallNamespace+"`.", addon.DefaultInstallNamespace, validInstallNamespace()),
			func(config agentConfig) **string { return &config.Spec.AgentInstallNamespace }).
			Standard(types.StringValue(addon.DefaultInstallNamespace)),
		attribute.Objects("resource_requirements", attribute.OptionalObjects("CPU and memory of containers. Where "+
			"several entries fit a container, the last one counts."),
			func(config agentConfig) *[]v1alpha1.ContainerResourceRequirements {
				return &config.Spec.ResourceRequirements
			},
			requirementsTable()...),
	}
}

func nodePlacementTable() attribute.Table[*v1alpha1.NodePlacement] {
	return attribute.Table[*v1alpha1.NodePlacement]{
		klusterlet.NodeSelector(func(p *v1alpha1.NodePlacement) *map[string]string { return &p.NodeSelector }),
		klusterlet.Tolerations(func(p *v1alpha1.NodePlacement) *[]corev1.Toleration { return &p.Tolerations }),
	}
}

func registryTable() attribute.Table[*v1alpha1.ImageMirror] {
	return attribute.Table[*v1alpha1.ImageMirror]{
		attribute.Text("source", attribute.Optional("Beginning of the images that are meant, such as "+
			"`quay.io/example`. If omitted, all images: of each the last part of its name is kept.", validRegistry()),
			func(r *v1alpha1.ImageMirror) *string { return &r.Source }),
		attribute.Text("mirror",
			attribute.Required("What is put in its place, such as `registry.example.com/mirror`.", validRegistry()),
			func(r *v1alpha1.ImageMirror) *string { return &r.Mirror }),
	}
}

func proxyTable() attribute.Table[*v1alpha1.ProxyConfig] {
	type proxy = *v1alpha1.ProxyConfig
	return attribute.Table[proxy]{
		attribute.Text("http", attribute.Optional("URL of the proxy for http, such as "+
			"`http://proxy.example.com:3128`. A password in it is readable for all who may read the "+
			"configuration.", attribute.ValidURL()),
			func(p proxy) *string { return &p.HTTPProxy }),
		attribute.Text("https",
			attribute.Optional("URL of the proxy for https, which may be the same.", attribute.ValidURL()),
			func(p proxy) *string { return &p.HTTPSProxy }),
		attribute.Code("no_proxy", attribute.OptionalTexts("Hosts, domains and address ranges that are reached "+
			"without the proxy, such as `.svc` or `10.0.0.0/8`. The hub's API usually belongs "+
			"here.", listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(validNoProxy())),
			func(value types.List, p proxy) {
				p.NoProxy = strings.Join(attribute.StringList(value), ",")
			},
			func(p proxy) types.List { return attribute.StringListValue(noProxyOf(p.NoProxy)) }),
		attribute.Code("ca_bundle", attribute.Optional("Certificates, as PEM, of the authorities that vouch for the "+
			"proxy.", attribute.ValidPEM()),
			func(value types.String, p proxy) { p.CABundle = []byte(value.ValueString()) },
			func(p proxy) types.String {
				return attribute.OptionalString(strings.ToValidUTF8(string(p.CABundle), "\uFFFD"))
			}),
	}
}

func requirementsTable() attribute.Table[*v1alpha1.ContainerResourceRequirements] {
	return attribute.Table[*v1alpha1.ContainerResourceRequirements]{
		attribute.Text("container_id", attribute.Required("Which containers: `kind:name:container`, with the plural "+
			"name of the kind, such as `deployments:my-agent:*`. `*` stands for any in each of the three "+
			"parts.", validContainerID()),
			func(c *v1alpha1.ContainerResourceRequirements) *string { return &c.ContainerID }),
		attribute.Object("resources",
			attribute.RequiredObject("What these containers get, in place of what the template gives them."),
			func(c *v1alpha1.ContainerResourceRequirements) *corev1.ResourceRequirements { return &c.Resources },
			klusterlet.ResourceFields()...),
	}
}

func setVariables(value types.Map, config agentConfig) {
	variables := attribute.StringMap(value)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		config.Spec.CustomizedVariables = append(config.Spec.CustomizedVariables,
			v1alpha1.CustomizedVariable{Name: name, Value: variables[name]})
	}
}

func variablesOf(config agentConfig) types.Map {
	if len(config.Spec.CustomizedVariables) == 0 {
		return types.MapNull(types.StringType)
	}
	variables := map[string]string{}
	for _, v := range config.Spec.CustomizedVariables {
		variables[v.Name] = v.Value
	}
	return attribute.StringMapValue(variables)
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

// validateDeploymentConfig refuses nodes and resources that no pod can have.
func validateDeploymentConfig(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	values := attribute.ValuesOf(ctx, config, diags)
	if diags.HasError() {
		return
	}
	klusterlet.CheckAgentOptions(values.Object("node_placement"), path.Root("node_placement"), diags)
	containers, _ := values["resource_requirements"].(types.List)
	checkContainers(path.Root("resource_requirements"), containers, diags)
}

// checkContainers refuses resources that no container can have, and two entries for
// the same containers.
func checkContainers(at path.Path, containers types.List, diags *diag.Diagnostics) {
	seen := attribute.Seen{}
	for i, container := range attribute.EachObject(containers) {
		at, id := at.AtListIndex(i), container.Text("container_id")
		if !container["container_id"].IsUnknown() {
			seen.Again(id, at, "Duplicate containers",
				fmt.Sprintf("are both for %q. Make one entry of them.", id), diags)
		}
		klusterlet.CheckAgentOptions(attribute.Values{"resources": container["resources"]}, at, diags)
	}
}

// The API's limits of variables, in bytes.
const (
	maxVariableName = 255
	maxVariable     = 1024
)

var (
	variableName = regexp.MustCompile(`^[a-zA-Z_][_a-zA-Z0-9]*$`)
	containerID  = regexp.MustCompile(
		`^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):[^:]+:[^:]+$`)
)

// validVariable admits names of variables.
func validVariable() validator.String {
	const description = "the name of a variable: letters, digits and underscores, without a digit in front, such as " +
		"IMAGE_TAG"
	return attribute.ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		if variableName.MatchString(text) && len(text) <= maxVariableName {
			return "", ""
		}
		if name := strings.Trim(strings.TrimSpace(text), "{} "); name != text && variableName.MatchString(name) {
			return "Invalid variable", fmt.Sprintf("%q has to be the bare name of the variable. Write %q.", text, name)
		}
		return "Invalid variable", fmt.Sprintf("%q has to be %s, and have at most %d "+
			"bytes.", text, description, maxVariableName)
	})
}

// validContainerID admits what the API takes for containers.
func validContainerID() validator.String {
	return attribute.Fitting("Invalid containers",
		"kind:name:container, such as deployments:my-agent:*, with the plural name of a kind or *",
		containerID.MatchString, func(string) string {
			return "The kinds are deployments, daemonsets, statefulsets, replicasets, jobs, cronjobs and pods."
		})
}

// validRegistry admits the beginning of an image's name.
func validRegistry() validator.String {
	return attribute.Fitting("Invalid registry",
		"the beginning of images, such as registry.example.com/mirror, without spaces",
		func(text string) bool { return !hasSpace(text) && !strings.Contains(text, "://") },
		func(text string) string {
			if _, rest, found := strings.Cut(text, "://"); found {
				return fmt.Sprintf("Images have no scheme. Write %q.", rest)
			}
			return ""
		})
}

// hasSpace reports whether a text is empty, or has spaces or control characters.
func hasSpace(text string) bool {
	return text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// validNoProxy admits one part of a list that is separated by commas.
func validNoProxy() validator.String {
	return attribute.Fitting("Invalid entry", "one host, domain or address range, such as .svc or 10.0.0.0/8",
		func(text string) bool {
			return !hasSpace(text) && !strings.Contains(text, "://") && !strings.Contains(text, ",")
		},
		func(text string) string {
			if strings.Contains(text, ",") {
				return "Write several as several elements of the list."
			}
			return ""
		})
}

// validInstallNamespace admits namespaces, and the empty text.
func validInstallNamespace() validator.String {
	return attribute.Fitting("Invalid namespace",
		"a DNS label (at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends), or "+
			"\"\" to keep the namespaces of the manifests",
		func(text string) bool { return text == "" || len(validation.IsDNS1123Label(text)) == 0 },
		func(text string) string { return fmt.Sprintf("Try %q.", attribute.SuggestName(text)) })
}
