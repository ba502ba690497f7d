// Package crds holds the CustomResourceDefinitions of the wire, generated from
// the types in runtime/api by hack/generate-api.sh.
package crds

import (
	"embed"
	"fmt"

	"sigs.k8s.io/yaml"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

//go:embed *.yaml
var files embed.FS

// managedClusterKinds are served by managed clusters; all others by the hub.
var managedClusterKinds = map[string]bool{
	"AppliedManifestWork": true,
	"ClusterClaim":        true,
}

// Hub returns the definitions of the kinds that a hub serves.
func Hub() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return load(func(kind string) bool { return !managedClusterKinds[kind] })
}

// ManagedCluster returns the definitions of the kinds that an agent needs in
// its managed cluster.
func ManagedCluster() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return load(func(kind string) bool { return managedClusterKinds[kind] })
}

func load(want func(kind string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, e := range entries {
		data, err := files.ReadFile(e.Name())
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
