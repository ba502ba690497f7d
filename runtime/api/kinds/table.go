package kinds

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
