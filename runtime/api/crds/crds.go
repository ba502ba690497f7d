// Package crds holds the CustomResourceDefinitions of the wire, generated from
// the types in runtime/api by hack/generate-api.sh.
package crds

import (
	"embed"
	"fmt"
	"path"

	"sigs.k8s.io/yaml"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

//go:embed *.yaml optional/*.yaml
var files embed.FS

// managedClusterKinds are served by managed clusters; all others by the hub.
var managedClusterKinds = map[string]bool{
	"AppliedManifestWork": true,
	"ClusterClaim":        true,
}

// Hub returns the definitions of the kinds that a hub serves.
func Hub() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return load(".", func(kind string) bool { return !managedClusterKinds[kind] })
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
