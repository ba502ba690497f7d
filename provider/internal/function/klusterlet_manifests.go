package function

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	manifests "github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
)

// NewKlusterletManifests is klusterlet_manifests.
func NewKlusterletManifests() function.Function {
	return declared[types.Dynamic]{name: "klusterlet_manifests",
		run: func(ctx context.Context, argument types.Dynamic) (any, error) {
			objects, err := renderKlusterlet(ctx, argument)
			return hcl(objects, err)
		}, definition: function.Definition{
			Summary: "The objects that muster_klusterlet installs in a cluster",
			MarkdownDescription: "Returns the objects of the agent as a list, in the order in which they can be " +
				"applied, " +
				"for those who " +
				"install it by another way than `muster_klusterlet`: GitOps, cloud-init, or the provider that makes " +
				"the " +
				"cluster. Write them with " +
				"`yamlencode`.\n\n" +
				"The Secret with the bootstrap kubeconfig is only among them when `bootstrap_kubeconfig` is given. " +
				"Otherwise create the Secret " +
				"`bootstrap-hub-kubeconfig`, with the key `kubeconfig`, in the agent's namespace.",
			Parameters: []function.Parameter{function.DynamicParameter{
				Name: "klusterlet",
				MarkdownDescription: "An object with attributes of `muster_klusterlet`: `cluster_name`, which is " +
					"required, `namespace`, and those that say how the agent runs: " +
					"`" + strings.Join(klusterlet.AgentOptionNames(), "`, `") + "`. Further `bootstrap_kubeconfig`, " +
					"the " +
					"text of a kubeconfig, " +
					"which is a secret: the result is sensitive or ephemeral when it is.",
			}},
			Return: function.DynamicReturn{},
		}}
}

type klusterletArgument struct {
	ClusterName         string `json:"cluster_name"`
	Namespace           string `json:"namespace"`
	BootstrapKubeconfig string `json:"bootstrap_kubeconfig"`
}

func renderKlusterlet(ctx context.Context, argument types.Dynamic) ([]any, error) {
	var a klusterletArgument
	given, err := readWith(argument, &a, klusterlet.AgentOptionNames())
	if err != nil {
		return nil, err
	}
	if a.ClusterName == "" {
		return nil, fmt.Errorf("cluster_name is missing; it is the cluster's name on the hub")
	}
	if err := checked(ctx, "cluster_name", a.ClusterName, attribute.ValidClusterName()); err != nil {
		return nil, err
	}
	if a.Namespace != "" {
		if err := checked(ctx, "namespace", a.Namespace, attribute.ValidName("namespace")); err != nil {
			return nil, err
		}
	}
	options, err := klusterlet.DecodeAgentOptions(given)
	if err != nil {
		return nil, err
	}
	options.Namespace = a.Namespace
	if problems := manifests.Validate(options, nil); len(problems) > 0 {
		return nil, problems[0]
	}
	if a.BootstrapKubeconfig != "" {
		if _, err := (kube.Connection{Kubeconfig: a.BootstrapKubeconfig}).RESTConfig(); err != nil {
			return nil, fmt.Errorf("bootstrap_kubeconfig: %w", err)
		}
	}
	objects := []any{}
	for _, object := range manifests.Render(manifests.Options{
		ClusterName: a.ClusterName, AgentOptions: options, BootstrapKubeconfig: []byte(a.BootstrapKubeconfig),
	}) {
		text, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("write %s as JSON: %w", object.GetName(), err)
		}
		parsed, err := workload.ObjectFromJSON(text)
		if err != nil {
			return nil, err
		}
		value, err := parsed.Value()
		if err != nil {
			return nil, err
		}
		delete(value, "status")
		objects = append(objects, value)
	}
	return objects, nil
}

// checked applies a validator of attributes to an attribute of an argument.
func checked(ctx context.Context, name, value string, v validator.String) error {
	resp := validator.StringResponse{}
	v.ValidateString(ctx, validator.StringRequest{Path: path.Root(name), ConfigValue: types.StringValue(value)}, &resp)
	if resp.Diagnostics.HasError() {
		return fmt.Errorf("%s: %s", name, resp.Diagnostics[0].Detail())
	}
	return nil
}
