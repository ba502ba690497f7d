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
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	aboutv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/about/v1alpha1"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	multiclusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
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
	// HubWithWorkPreview is a hub with the feature gate WorkPreview.
	HubWithWorkPreview Server = "HubWithWorkPreview"
	// HubWithWorkOverride is a hub with the feature gate WorkOverride.
	HubWithWorkOverride Server = "HubWithWorkOverride"
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
	case HubWithClusterProfile, HubWithClusterRegistration, HubWithClusterImport, HubWithUserAccess,
		HubWithWorkPreview, HubWithWorkOverride:
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

// Wire are the kinds that muster has Go types for: those of the provider, and add-ons in
// the newer version of their API and the properties of clusters.
func Wire() []Kind {
	return append(Provider(),
		converted(namespaced(Hub, addonv1beta1.GroupVersion,
			&addonv1beta1.ManagedClusterAddOn{}, &addonv1beta1.ManagedClusterAddOnList{})),
		converted(root(Hub, addonv1beta1.GroupVersion,
			&addonv1beta1.ClusterManagementAddOn{}, &addonv1beta1.ClusterManagementAddOnList{})),
		namespaced(Hub, addonv1beta1.GroupVersion,
			&addonv1beta1.AddOnDeploymentConfig{}, &addonv1beta1.AddOnDeploymentConfigList{}),
		root(Hub, addonv1beta1.GroupVersion, &addonv1beta1.AddOnTemplate{}, &addonv1beta1.AddOnTemplateList{}),
		root("", aboutv1alpha1.GroupVersion, &aboutv1alpha1.ClusterProperty{}, &aboutv1alpha1.ClusterPropertyList{}),
	)
}

// Provider are those of them that the provider handles, add-ons in the version that hubs
// store. It links no types of the others.
func Provider() []Kind {
	return []Kind{
		root(Hub, clusterv1.GroupVersion, &clusterv1.ManagedCluster{}, &clusterv1.ManagedClusterList{}),
		root(Hub, clusterv1beta2.GroupVersion,
			&clusterv1beta2.ManagedClusterSet{}, &clusterv1beta2.ManagedClusterSetList{}),
		namespaced(Hub, clusterv1beta2.GroupVersion,
			&clusterv1beta2.ManagedClusterSetBinding{}, &clusterv1beta2.ManagedClusterSetBindingList{}),
		namespaced(Hub, clusterv1beta1.GroupVersion, &clusterv1beta1.Placement{}, &clusterv1beta1.PlacementList{}),
		namespaced(Hub, clusterv1beta1.GroupVersion,
			&clusterv1beta1.PlacementDecision{}, &clusterv1beta1.PlacementDecisionList{}),
		namespaced(Hub, clusterv1alpha1.GroupVersion,
			&clusterv1alpha1.AddOnPlacementScore{}, &clusterv1alpha1.AddOnPlacementScoreList{}),
		root(ManagedCluster, clusterv1alpha1.GroupVersion,
			&clusterv1alpha1.ClusterClaim{}, &clusterv1alpha1.ClusterClaimList{}),
		namespaced(Hub, workv1.GroupVersion, &workv1.ManifestWork{}, &workv1.ManifestWorkList{}),
		root(ManagedCluster, workv1.GroupVersion, &workv1.AppliedManifestWork{}, &workv1.AppliedManifestWorkList{}),
		namespaced(Hub, workv1alpha1.GroupVersion,
			&workv1alpha1.ManifestWorkReplicaSet{}, &workv1alpha1.ManifestWorkReplicaSetList{}),
		namespaced(HubWithClusterProfile, multiclusterv1alpha1.GroupVersion,
			&multiclusterv1alpha1.ClusterProfile{}, &multiclusterv1alpha1.ClusterProfileList{}),
		converted(namespaced(Hub, addonv1alpha1.GroupVersion,
			&addonv1alpha1.ManagedClusterAddOn{}, &addonv1alpha1.ManagedClusterAddOnList{})),
		converted(root(Hub, addonv1alpha1.GroupVersion,
			&addonv1alpha1.ClusterManagementAddOn{}, &addonv1alpha1.ClusterManagementAddOnList{})),
		namespaced(Hub, addonv1alpha1.GroupVersion,
			&addonv1alpha1.AddOnDeploymentConfig{}, &addonv1alpha1.AddOnDeploymentConfigList{}),
		root(Hub, addonv1alpha1.GroupVersion, &addonv1alpha1.AddOnTemplate{}, &addonv1alpha1.AddOnTemplateList{}),
		root(HubWithClusterRegistration, musterv1alpha1.GroupVersion,
			&musterv1alpha1.ClusterRegistration{}, &musterv1alpha1.ClusterRegistrationList{}),
		root(HubWithClusterImport, musterv1alpha1.GroupVersion,
			&musterv1alpha1.ClusterImport{}, &musterv1alpha1.ClusterImportList{}),
		namespaced(HubWithUserAccess, musterv1alpha1.GroupVersion,
			&musterv1alpha1.LogicalCloud{}, &musterv1alpha1.LogicalCloudList{}),
		root(HubWithUserAccess, musterv1alpha1.GroupVersion,
			&musterv1alpha1.AccessRole{}, &musterv1alpha1.AccessRoleList{}),
		namespaced(HubWithUserAccess, musterv1alpha1.GroupVersion,
			&musterv1alpha1.AccessRequest{}, &musterv1alpha1.AccessRequestList{}),
		namespaced(HubWithUserAccess, musterv1alpha1.GroupVersion,
			&musterv1alpha1.ClusterCredential{}, &musterv1alpha1.ClusterCredentialList{}),
		namespaced(HubWithWorkPreview, musterv1alpha1.GroupVersion,
			&musterv1alpha1.WorkPreview{}, &musterv1alpha1.WorkPreviewList{}),
		namespaced(HubWithWorkOverride, musterv1alpha1.GroupVersion,
			&musterv1alpha1.WorkOverride{}, &musterv1alpha1.WorkOverrideList{}),
	}
}

// Kubernetes are those of Kubernetes' own kinds that muster's clients use. Their
// groups are literals, as the packages that name them have the types as well.
func Kubernetes() []Kind {
	cluster, namespace := meta.RESTScopeRoot, meta.RESTScopeNamespace
	return []Kind{
		kubernetesKind("", "Namespace", "namespaces", cluster),
		kubernetesKind("", "Node", "nodes", cluster),
		kubernetesKind("", "Secret", "secrets", namespace),
		kubernetesKind("", "ConfigMap", "configmaps", namespace),
		kubernetesKind("", "ServiceAccount", "serviceaccounts", namespace),
		kubernetesKind("", "Event", "events", namespace),
		kubernetesKind("", "Pod", "pods", namespace),
		kubernetesKind("apps", "Deployment", "deployments", namespace),
		kubernetesKind("rbac.authorization.k8s.io", "Role", "roles", namespace),
		kubernetesKind("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", namespace),
		kubernetesKind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", cluster),
		kubernetesKind("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", cluster),
		kubernetesKind("coordination.k8s.io", "Lease", "leases", namespace),
		kubernetesKind("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", cluster),
		kubernetesKind("events.k8s.io", "Event", "events", namespace),
		kubernetesKind("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", cluster),
		kubernetesKind("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", cluster),
		kubernetesKind("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", cluster),
		kubernetesKind("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", cluster),
	}
}

// root is a kind of the wire whose objects have no namespace.
func root(server Server, version schema.GroupVersion, object, list runtime.Object) Kind {
	kind := version.WithKind(reflect.TypeOf(object).Elem().Name())
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return Kind{
		GroupVersionKind: kind, Resource: resource.Resource, Scope: meta.RESTScopeRoot,
		Object: object, List: list, Server: server,
	}
}

// namespaced is a kind of the wire whose objects are in namespaces.
func namespaced(server Server, version schema.GroupVersion, object, list runtime.Object) Kind {
	kind := root(server, version, object, list)
	kind.Scope = meta.RESTScopeNamespace
	return kind
}

func converted(kind Kind) Kind {
	kind.Converted = true
	return kind
}

func kubernetesKind(group, kind, resource string, scope meta.RESTScope) Kind {
	return Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
		Resource:         resource, Scope: scope,
	}
}
