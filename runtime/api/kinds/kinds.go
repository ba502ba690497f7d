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
	"slices"

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

// Wire are the kinds that muster has Go types for.
func Wire() []Kind { return slices.Concat(Provider(), convertedAddOns(), clusterProperties()) }

// Provider are those of them that the provider handles. It links no types of the
// others.
func Provider() []Kind {
	return slices.Concat(clusters(), works(), clusterProfiles(), addOns(), own())
}

func clusters() []Kind {
	return []Kind{
		{
			GroupVersionKind: clusterv1.GroupVersion.WithKind("ManagedCluster"), Resource: "managedclusters", Scope: meta.RESTScopeRoot,
			Object: &clusterv1.ManagedCluster{}, List: &clusterv1.ManagedClusterList{}, Server: Hub,
		},
		{
			GroupVersionKind: clusterv1beta2.GroupVersion.WithKind("ManagedClusterSet"), Resource: "managedclustersets", Scope: meta.RESTScopeRoot,
			Object: &clusterv1beta2.ManagedClusterSet{}, List: &clusterv1beta2.ManagedClusterSetList{}, Server: Hub,
		},
		{
			GroupVersionKind: clusterv1beta2.GroupVersion.WithKind("ManagedClusterSetBinding"), Resource: "managedclustersetbindings", Scope: meta.RESTScopeNamespace,
			Object: &clusterv1beta2.ManagedClusterSetBinding{}, List: &clusterv1beta2.ManagedClusterSetBindingList{}, Server: Hub,
		},
		{
			GroupVersionKind: clusterv1beta1.GroupVersion.WithKind("Placement"), Resource: "placements", Scope: meta.RESTScopeNamespace,
			Object: &clusterv1beta1.Placement{}, List: &clusterv1beta1.PlacementList{}, Server: Hub,
		},
		{
			GroupVersionKind: clusterv1beta1.GroupVersion.WithKind("PlacementDecision"), Resource: "placementdecisions", Scope: meta.RESTScopeNamespace,
			Object: &clusterv1beta1.PlacementDecision{}, List: &clusterv1beta1.PlacementDecisionList{}, Server: Hub,
		},
		{
			GroupVersionKind: clusterv1alpha1.GroupVersion.WithKind("AddOnPlacementScore"), Resource: "addonplacementscores", Scope: meta.RESTScopeNamespace,
			Object: &clusterv1alpha1.AddOnPlacementScore{}, List: &clusterv1alpha1.AddOnPlacementScoreList{}, Server: Hub,
		},
		{
			GroupVersionKind: clusterv1alpha1.GroupVersion.WithKind("ClusterClaim"), Resource: "clusterclaims", Scope: meta.RESTScopeRoot,
			Object: &clusterv1alpha1.ClusterClaim{}, List: &clusterv1alpha1.ClusterClaimList{}, Server: ManagedCluster,
		},
	}
}

func works() []Kind {
	return []Kind{
		{
			GroupVersionKind: workv1.GroupVersion.WithKind("ManifestWork"), Resource: "manifestworks", Scope: meta.RESTScopeNamespace,
			Object: &workv1.ManifestWork{}, List: &workv1.ManifestWorkList{}, Server: Hub,
		},
		{
			GroupVersionKind: workv1.GroupVersion.WithKind("AppliedManifestWork"), Resource: "appliedmanifestworks", Scope: meta.RESTScopeRoot,
			Object: &workv1.AppliedManifestWork{}, List: &workv1.AppliedManifestWorkList{}, Server: ManagedCluster,
		},
		{
			GroupVersionKind: workv1alpha1.GroupVersion.WithKind("ManifestWorkReplicaSet"), Resource: "manifestworkreplicasets", Scope: meta.RESTScopeNamespace,
			Object: &workv1alpha1.ManifestWorkReplicaSet{}, List: &workv1alpha1.ManifestWorkReplicaSetList{}, Server: Hub,
		},
	}
}

// addOns are the kinds of add-ons in the version that hubs store.
func addOns() []Kind {
	return []Kind{
		{
			GroupVersionKind: addonv1alpha1.GroupVersion.WithKind("ManagedClusterAddOn"), Resource: "managedclusteraddons", Scope: meta.RESTScopeNamespace,
			Object: &addonv1alpha1.ManagedClusterAddOn{}, List: &addonv1alpha1.ManagedClusterAddOnList{}, Server: Hub, Converted: true,
		},
		{
			GroupVersionKind: addonv1alpha1.GroupVersion.WithKind("ClusterManagementAddOn"), Resource: "clustermanagementaddons", Scope: meta.RESTScopeRoot,
			Object: &addonv1alpha1.ClusterManagementAddOn{}, List: &addonv1alpha1.ClusterManagementAddOnList{}, Server: Hub, Converted: true,
		},
		{
			GroupVersionKind: addonv1alpha1.GroupVersion.WithKind("AddOnDeploymentConfig"), Resource: "addondeploymentconfigs", Scope: meta.RESTScopeNamespace,
			Object: &addonv1alpha1.AddOnDeploymentConfig{}, List: &addonv1alpha1.AddOnDeploymentConfigList{}, Server: Hub,
		},
		{
			GroupVersionKind: addonv1alpha1.GroupVersion.WithKind("AddOnTemplate"), Resource: "addontemplates", Scope: meta.RESTScopeRoot,
			Object: &addonv1alpha1.AddOnTemplate{}, List: &addonv1alpha1.AddOnTemplateList{}, Server: Hub,
		},
	}
}

// convertedAddOns are the same in the newer version.
func convertedAddOns() []Kind {
	return []Kind{
		{
			GroupVersionKind: addonv1beta1.GroupVersion.WithKind("ManagedClusterAddOn"), Resource: "managedclusteraddons", Scope: meta.RESTScopeNamespace,
			Object: &addonv1beta1.ManagedClusterAddOn{}, List: &addonv1beta1.ManagedClusterAddOnList{}, Server: Hub, Converted: true,
		},
		{
			GroupVersionKind: addonv1beta1.GroupVersion.WithKind("ClusterManagementAddOn"), Resource: "clustermanagementaddons", Scope: meta.RESTScopeRoot,
			Object: &addonv1beta1.ClusterManagementAddOn{}, List: &addonv1beta1.ClusterManagementAddOnList{}, Server: Hub, Converted: true,
		},
		{
			GroupVersionKind: addonv1beta1.GroupVersion.WithKind("AddOnDeploymentConfig"), Resource: "addondeploymentconfigs", Scope: meta.RESTScopeNamespace,
			Object: &addonv1beta1.AddOnDeploymentConfig{}, List: &addonv1beta1.AddOnDeploymentConfigList{}, Server: Hub,
		},
		{
			GroupVersionKind: addonv1beta1.GroupVersion.WithKind("AddOnTemplate"), Resource: "addontemplates", Scope: meta.RESTScopeRoot,
			Object: &addonv1beta1.AddOnTemplate{}, List: &addonv1beta1.AddOnTemplateList{}, Server: Hub,
		},
	}
}

func clusterProfiles() []Kind {
	return []Kind{
		{
			GroupVersionKind: multiclusterv1alpha1.GroupVersion.WithKind("ClusterProfile"), Resource: "clusterprofiles", Scope: meta.RESTScopeNamespace,
			Object: &multiclusterv1alpha1.ClusterProfile{}, List: &multiclusterv1alpha1.ClusterProfileList{}, Server: HubWithClusterProfile,
		},
	}
}

// own are the kinds of muster's own API group.
func own() []Kind {
	return []Kind{
		{
			GroupVersionKind: musterv1alpha1.GroupVersion.WithKind("ClusterRegistration"), Resource: "clusterregistrations", Scope: meta.RESTScopeRoot,
			Object: &musterv1alpha1.ClusterRegistration{}, List: &musterv1alpha1.ClusterRegistrationList{}, Server: HubWithClusterRegistration,
		},
		{
			GroupVersionKind: musterv1alpha1.GroupVersion.WithKind("ClusterImport"), Resource: "clusterimports", Scope: meta.RESTScopeRoot,
			Object: &musterv1alpha1.ClusterImport{}, List: &musterv1alpha1.ClusterImportList{}, Server: HubWithClusterImport,
		},
		{
			GroupVersionKind: musterv1alpha1.GroupVersion.WithKind("LogicalCloud"), Resource: "logicalclouds", Scope: meta.RESTScopeNamespace,
			Object: &musterv1alpha1.LogicalCloud{}, List: &musterv1alpha1.LogicalCloudList{}, Server: HubWithUserAccess,
		},
		{
			GroupVersionKind: musterv1alpha1.GroupVersion.WithKind("AccessRole"), Resource: "accessroles", Scope: meta.RESTScopeRoot,
			Object: &musterv1alpha1.AccessRole{}, List: &musterv1alpha1.AccessRoleList{}, Server: HubWithUserAccess,
		},
		{
			GroupVersionKind: musterv1alpha1.GroupVersion.WithKind("AccessRequest"), Resource: "accessrequests", Scope: meta.RESTScopeNamespace,
			Object: &musterv1alpha1.AccessRequest{}, List: &musterv1alpha1.AccessRequestList{}, Server: HubWithUserAccess,
		},
		{
			GroupVersionKind: musterv1alpha1.GroupVersion.WithKind("ClusterCredential"), Resource: "clustercredentials", Scope: meta.RESTScopeNamespace,
			Object: &musterv1alpha1.ClusterCredential{}, List: &musterv1alpha1.ClusterCredentialList{}, Server: HubWithUserAccess,
		},
	}
}

func clusterProperties() []Kind {
	return []Kind{
		{
			GroupVersionKind: aboutv1alpha1.GroupVersion.WithKind("ClusterProperty"), Resource: "clusterproperties", Scope: meta.RESTScopeRoot,
			Object: &aboutv1alpha1.ClusterProperty{}, List: &aboutv1alpha1.ClusterPropertyList{},
		},
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

func kubernetesKind(group, kind, resource string, scope meta.RESTScope) Kind {
	return Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
		Resource:         resource, Scope: scope,
	}
}
