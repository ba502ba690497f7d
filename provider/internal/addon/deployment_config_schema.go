package addon

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/agentoptions"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
)

func (r *deploymentConfigResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "How the agents of add-ons run: values for variables of a template, nodes, registries, a proxy, the namespace, and resources. " +
			"It takes effect where `configs` of a `muster_addon` or of a `muster_cluster_addon` names it; a change then reaches the clusters as the rollout strategy of their placement says.\n\n" +
			"Destroying waits until no add-on in a cluster uses it any more, because an add-on that is being removed may still need it.",
		Attributes: map[string]schema.Attribute{
			"namespace": attribute.Identifying("Namespace on the hub. It has to exist, for example as a `muster_namespace`. Changing it replaces the configuration.",
				attribute.ValidName("namespace")),
			"name": attribute.Identifying("Name of the configuration. Changing it replaces the configuration.",
				attribute.ValidObjectName("configuration name")),
			"labels":      attribute.Labels("Labels of the configuration.", nil),
			"annotations": attribute.Annotations("Annotations of the configuration."),
			"customized_variables": schema.MapAttribute{
				MarkdownDescription: "Values by the names of variables: a template has `{{NAME}}` in its manifests where the value of `NAME` goes. Values are put in as they are. " +
					"`CLUSTER_NAME` and `INSTALL_NAMESPACE` are set by the hub, and a value for them here has no effect.",
				Optional: true, ElementType: types.StringType,
				Validators: []validator.Map{mapvalidator.KeysAre(validVariable()), mapvalidator.ValueStringsAre(attribute.LengthBetween(0, maxVariable))},
			},
			"node_placement": schema.SingleNestedAttribute{
				MarkdownDescription: "On which nodes the agents' pods run.",
				Optional:            true,
				Attributes:          map[string]schema.Attribute{"node_selector": agentoptions.NodeSelector(), "tolerations": agentoptions.Tolerations()},
			},
			"registries": registriesAttribute(),
			"proxy":      proxyAttribute(),
			"agent_install_namespace": schema.StringAttribute{
				MarkdownDescription: "Namespace of the agents in the clusters: all objects of a template that have a namespace get this one. " +
					"`\"\"` is not the same as leaving it out: with `\"\"` the objects keep the namespaces that the template gives them. Defaults to `" + addon.DefaultInstallNamespace + "`.",
				Optional: true, Computed: true, Default: stringdefault.StaticString(addon.DefaultInstallNamespace),
				Validators: []validator.String{validInstallNamespace()},
			},
			"resource_requirements": schema.ListNestedAttribute{
				MarkdownDescription: "CPU and memory of containers. Where several entries fit a container, the last one counts.",
				Optional:            true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"container_id": schema.StringAttribute{
						MarkdownDescription: "Which containers: `kind:name:container`, with the plural name of the kind, such as `deployments:my-agent:*`. `*` stands for any in each of the three parts.",
						Required:            true,
						Validators:          []validator.String{validContainerID()},
					},
					"resources": agentoptions.Resources("What these containers get, in place of what the template gives them.", true),
				}},
			},
			"adopt":           attribute.AdoptAttribute(),
			"force_conflicts": attribute.ForceAttribute(),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{Delete: true, DeleteDescription: attribute.TimeoutText("deleting, which waits until no add-on uses it,", attribute.DefaultDelete)}),
		},
	}
}

func registriesAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Registries from which the agents' images are pulled in place of others. Where several entries fit an image, the last one counts. They go before those of the managed cluster's annotation.",
		Optional:            true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"source": schema.StringAttribute{
				MarkdownDescription: "Beginning of the images that are meant, such as `quay.io/example`. If omitted, all images: of each the last part of its name is kept.",
				Optional:            true,
				Validators:          []validator.String{validRegistry()},
			},
			"mirror": schema.StringAttribute{
				MarkdownDescription: "What is put in its place, such as `registry.example.com/mirror`.",
				Required:            true,
				Validators:          []validator.String{validRegistry()},
			},
		}},
	}
}

func proxyAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Proxy by which the agents reach what is outside of their cluster. Each part becomes an environment variable of their containers.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"http": schema.StringAttribute{
				MarkdownDescription: "URL of the proxy for http, such as `http://proxy.example.com:3128`. A password in it is readable for all who may read the configuration.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidURL()},
			},
			"https": schema.StringAttribute{
				MarkdownDescription: "URL of the proxy for https, which may be the same.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidURL()},
			},
			"no_proxy": schema.ListAttribute{
				MarkdownDescription: "Hosts, domains and address ranges that are reached without the proxy, such as `.svc` or `10.0.0.0/8`. The hub's API usually belongs here.",
				Optional:            true, ElementType: types.StringType,
				Validators: []validator.List{listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(validNoProxy())},
			},
			"ca_bundle": schema.StringAttribute{
				MarkdownDescription: "Certificates, as PEM, of the authorities that vouch for the proxy.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidPEM()},
			},
		},
	}
}

// ValidateConfig refuses nodes and resources that no pod can have.
func (r *deploymentConfigResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var placement types.Object
	var containers types.List
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("node_placement"), &placement)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("resource_requirements"), &containers)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !placement.IsNull() && !placement.IsUnknown() {
		agentoptions.Check(placement.Attributes(), path.Root("node_placement"), &resp.Diagnostics)
	}
	checkContainers(path.Root("resource_requirements"), containers, &resp.Diagnostics)
}

// checkContainers refuses resources that no container can have, and two entries for
// the same containers.
func checkContainers(at path.Path, containers types.List, diags *diag.Diagnostics) {
	seen := map[string]int{}
	for i, element := range containers.Elements() {
		container, ok := element.(types.Object)
		if !ok || container.IsNull() || container.IsUnknown() {
			continue
		}
		id, _ := container.Attributes()["container_id"].(types.String)
		if first, twice := seen[id.ValueString()]; twice && !id.IsUnknown() {
			diags.AddAttributeError(at.AtListIndex(i), "Duplicate containers", fmt.Sprintf("%s and %s are both for %q. Make one entry of them.",
				attribute.Place(at.AtListIndex(first)), attribute.Place(at.AtListIndex(i)), id.ValueString()))
		}
		if !id.IsUnknown() {
			seen[id.ValueString()] = i
		}
		if resources := container.Attributes()["resources"]; resources != nil {
			agentoptions.Check(map[string]attr.Value{"resources": resources}, at.AtListIndex(i), diags)
		}
	}
}

// The API's limits of variables, in bytes.
const (
	maxVariableName = 255
	maxVariable     = 1024
)

var (
	variableName = regexp.MustCompile(`^[a-zA-Z_][_a-zA-Z0-9]*$`)
	containerID  = regexp.MustCompile(`^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):[^:]+:[^:]+$`)
)

// validVariable admits names of variables.
func validVariable() validator.String {
	const description = "the name of a variable: letters, digits and underscores, without a digit in front, such as IMAGE_TAG"
	return attribute.ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		if variableName.MatchString(text) && len(text) <= maxVariableName {
			return "", ""
		}
		if name := strings.Trim(strings.TrimSpace(text), "{} "); name != text && variableName.MatchString(name) {
			return "Invalid variable", fmt.Sprintf("%q has to be the bare name of the variable. Write %q.", text, name)
		}
		return "Invalid variable", fmt.Sprintf("%q has to be %s, and have at most %d bytes.", text, description, maxVariableName)
	})
}

// validContainerID admits what the API takes for containers.
func validContainerID() validator.String {
	const description = "kind:name:container, such as deployments:my-agent:*, with the plural name of a kind or *"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if containerID.MatchString(text) {
			return "", ""
		}
		return "Invalid containers", fmt.Sprintf("%s is %q, but it takes %s. The kinds are deployments, daemonsets, statefulsets, replicasets, jobs, cronjobs and pods.",
			attribute.Place(at), text, description)
	})
}

// validRegistry admits the beginning of an image's name.
func validRegistry() validator.String {
	const description = "the beginning of images, such as registry.example.com/mirror"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		switch {
		case text == "", strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			return "Invalid registry", fmt.Sprintf("%s is %q, but it takes %s, without spaces.", attribute.Place(at), text, description)
		case strings.Contains(text, "://"):
			_, rest, _ := strings.Cut(text, "://")
			return "Invalid registry", fmt.Sprintf("%s is %q, but images have no scheme. Write %q.", attribute.Place(at), text, rest)
		}
		return "", ""
	})
}

// validNoProxy admits one part of a list that is separated by commas.
func validNoProxy() validator.String {
	const description = "one host, domain or address range, such as .svc or 10.0.0.0/8"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		switch {
		case text == "", strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), strings.Contains(text, "://"):
			return "Invalid entry", fmt.Sprintf("%s is %q, but it takes %s.", attribute.Place(at), text, description)
		case strings.Contains(text, ","):
			return "Invalid entry", fmt.Sprintf("%s is %q, but it takes %s. Write several as several elements of the list.", attribute.Place(at), text, description)
		}
		return "", ""
	})
}

// validInstallNamespace admits namespaces, and the empty text.
func validInstallNamespace() validator.String {
	return attribute.ValidText("a namespace, or \"\" for those of the manifests", func(at path.Path, text string) (summary, detail string) {
		if text == "" || len(validation.IsDNS1123Label(text)) == 0 {
			return "", ""
		}
		return "Invalid namespace", fmt.Sprintf("%s is %q, but it takes a DNS label (at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends), or \"\" to keep the namespaces of the manifests. Try %q.",
			attribute.Place(at), text, attribute.SuggestName(text))
	})
}
