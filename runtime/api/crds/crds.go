// Package crds holds the CustomResourceDefinitions of the wire, generated from
// the types in runtime/api by hack/generate-api.sh. Which server gets which of
// them is in the table of package kinds.
package crds

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

//go:embed *.yaml optional/*.yaml
var files embed.FS

// Hub returns the definitions of the kinds that every hub serves. Those of add-ons
// name the conversion in the hub's own API server.
func Hub() ([]*apiextensionsv1.CustomResourceDefinition, error) { return load(kinds.Hub) }

// ManagedCluster returns the definitions of the kinds that an agent needs in its
// managed cluster.
func ManagedCluster() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return load(kinds.ManagedCluster)
}

// Gated returns the definitions that a hub serves with a feature gate:
// kinds.HubWithClusterProfile and the like.
func Gated(server kinds.Server) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return load(server)
}

func load(server kinds.Server) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	converted := sets.New[string]()
	for _, k := range kinds.Wire() {
		if k.Converted {
			converted.Insert(k.Definition())
		}
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range kinds.Definitions(server) {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the definition %s: %w", name, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("read the definition %s: %w", name, err)
		}
		if converted.Has(name) {
			crd.Spec.Conversion = addOnConversion()
		}
		all = append(all, crd)
	}
	return all, nil
}

func addOnConversion() *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{
					Namespace: cluster.HubNamespace, Name: addon.ConversionService, Port: ptr.To[int32](443),
				},
			},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}
