// Package crds holds the CustomResourceDefinitions of the wire, generated from
// the types in runtime/api by hack/generate-api.sh.
package crds

import (
	"embed"
	"fmt"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

//go:embed *.yaml optional/*.yaml
var files embed.FS

// managedClusterKinds are served by managed clusters; all others by the hub.
var managedClusterKinds = map[string]bool{
	"AppliedManifestWork": true,
	"ClusterClaim":        true,
}

// convertedKinds have versions of different shapes, between which the hub's API
// server converts.
var convertedKinds = map[string]bool{
	"ClusterManagementAddOn": true,
	"ManagedClusterAddOn":    true,
}

// Hub returns the definitions of the kinds that a hub serves. Those of add-ons
// name the conversion in the hub's own API server.
func Hub() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	definitions, err := load(".", func(kind string) bool { return !managedClusterKinds[kind] })
	for _, crd := range definitions {
		if convertedKinds[crd.Spec.Names.Kind] {
			crd.Spec.Conversion = addOnConversion()
		}
	}
	return definitions, err
}

func addOnConversion() *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{Namespace: cluster.HubNamespace, Name: addon.ConversionService, Port: ptr.To[int32](443)},
			},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}

// ManagedCluster returns the definitions of the kinds that an agent needs in
// its managed cluster.
func ManagedCluster() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return load(".", func(kind string) bool { return managedClusterKinds[kind] })
}

// ClusterProfile returns the definition of the cluster inventory's kind, which a
// hub serves when it is told to.
func ClusterProfile() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return load("optional", func(kind string) bool { return kind == "ClusterProfile" })
}

func load(dir string, want func(kind string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := files.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("read the definition %s: %w", e.Name(), err)
		}
		if want(crd.Spec.Names.Kind) {
			all = append(all, crd)
		}
	}
	return all, nil
}
