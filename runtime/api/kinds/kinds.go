// Package kinds is the one table of the kinds that muster's programs read and
// write. The schemes, the static REST mapper (internal/restmapper) and the lists of
// definitions (runtime/api/crds) are made from it. What the hub caches follows from
// what its controllers watch.
//
// It is linked into the provider. So it must import neither client-go's scheme
// nor the API types of Kubernetes: of Kubernetes' kinds the table has the names
// only.
package kinds

import (
	"path"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Kind is a row of the table: one kind in one version.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the kind's name in URLs: managedclusters.
	Resource string
	// Scope is meta.RESTScopeRoot or meta.RESTScopeNamespace.
	Scope meta.RESTScope
	// Object and List are empty values of the Go types; nil for Kubernetes' kinds.
	Object, List runtime.Object
	// Server says whose definition it is; "" for kinds that muster does not define.
	Server Server
	// Converted is that the versions of the kind differ in shape, so that the
	// hub's API server converts between them.
	Converted bool
}

// Server says which servers get the definition of a kind from muster.
type Server string

// Servers that definitions are installed on.
const (
	// Hub is every hub.
	Hub Server = "Hub"
	// HubWithClusterProfile is a hub with the feature gate ClusterProfile.
	HubWithClusterProfile Server = "HubWithClusterProfile"
	// HubWithClusterRegistration is a hub with the feature gate ClusterRegistration.
	HubWithClusterRegistration Server = "HubWithClusterRegistration"
	// HubWithClusterImport is a hub with the feature gate ClusterImport.
	HubWithClusterImport Server = "HubWithClusterImport"
	// HubWithUserAccess is a hub with the feature gate UserAccess.
	HubWithUserAccess Server = "HubWithUserAccess"
	// ManagedCluster is every managed cluster.
	ManagedCluster Server = "ManagedCluster"
)

// Definition is the file in runtime/api/crds with the kind's definition; "" when
// muster does not define it. All versions of a kind share one.
func (k Kind) Definition() string {
	file := k.Group + "_" + k.Resource + ".yaml"
	switch k.Server {
	case Hub, ManagedCluster:
		return file
	case HubWithClusterProfile, HubWithClusterRegistration, HubWithClusterImport, HubWithUserAccess:
		return path.Join("optional", file)
	}
	return ""
}

// Definitions are the files in runtime/api/crds that a server gets, in the order
// of the table.
func Definitions(of Server) []string {
	var files []string
	seen := sets.New[string]()
	for _, k := range Wire() {
		if file := k.Definition(); k.Server == of && !seen.Has(file) {
			seen.Insert(file)
			files = append(files, file)
		}
	}
	return files
}

// All are the kinds of the wire and those of Kubernetes that muster uses.
func All() []Kind { return append(Wire(), Kubernetes()...) }

// AddToScheme adds kinds of the wire to a scheme. It panics when the scheme has
// another type for one of them.
func AddToScheme(scheme *runtime.Scheme, kinds []Kind) {
	added := sets.New[schema.GroupVersion]()
	for _, k := range kinds {
		version := k.GroupVersion()
		scheme.AddKnownTypes(version, k.Object, k.List)
		if !added.Has(version) {
			added.Insert(version)
			metav1.AddToGroupVersion(scheme, version)
		}
	}
}
