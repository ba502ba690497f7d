// Package restmapper maps kinds to resources from a table, so that clients of a
// hub or a managed cluster need no discovery: no requests before the first real
// one, and a plan that works while the server is away.
package restmapper

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type mapping struct {
	group, version, kind string
	scope                meta.RESTScope
}

var mappings = []mapping{
	{"cluster.open-cluster-management.io", "v1", "ManagedCluster", meta.RESTScopeRoot},
	{"cluster.open-cluster-management.io", "v1alpha1", "ClusterClaim", meta.RESTScopeRoot},
	{"cluster.open-cluster-management.io", "v1alpha1", "AddOnPlacementScore", meta.RESTScopeNamespace},
	{"cluster.open-cluster-management.io", "v1beta1", "Placement", meta.RESTScopeNamespace},
	{"cluster.open-cluster-management.io", "v1beta1", "PlacementDecision", meta.RESTScopeNamespace},
	{"cluster.open-cluster-management.io", "v1beta2", "ManagedClusterSet", meta.RESTScopeRoot},
	{"cluster.open-cluster-management.io", "v1beta2", "ManagedClusterSetBinding", meta.RESTScopeNamespace},
	{"work.open-cluster-management.io", "v1", "ManifestWork", meta.RESTScopeNamespace},
	{"work.open-cluster-management.io", "v1", "AppliedManifestWork", meta.RESTScopeRoot},
	{"work.open-cluster-management.io", "v1alpha1", "ManifestWorkReplicaSet", meta.RESTScopeNamespace},
	{"addon.open-cluster-management.io", "v1alpha1", "ManagedClusterAddOn", meta.RESTScopeNamespace},
	{"addon.open-cluster-management.io", "v1alpha1", "ClusterManagementAddOn", meta.RESTScopeRoot},
	{"addon.open-cluster-management.io", "v1alpha1", "AddOnDeploymentConfig", meta.RESTScopeNamespace},
	{"addon.open-cluster-management.io", "v1alpha1", "AddOnTemplate", meta.RESTScopeRoot},
	{"multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", meta.RESTScopeNamespace},
	{"about.k8s.io", "v1alpha1", "ClusterProperty", meta.RESTScopeRoot},

	{"", "v1", "Namespace", meta.RESTScopeRoot},
	{"", "v1", "Node", meta.RESTScopeRoot},
	{"", "v1", "Secret", meta.RESTScopeNamespace},
	{"", "v1", "ConfigMap", meta.RESTScopeNamespace},
	{"", "v1", "ServiceAccount", meta.RESTScopeNamespace},
	{"", "v1", "Event", meta.RESTScopeNamespace},
	{"", "v1", "Pod", meta.RESTScopeNamespace},
	{"apps", "v1", "Deployment", meta.RESTScopeNamespace},
	{"rbac.authorization.k8s.io", "v1", "Role", meta.RESTScopeNamespace},
	{"rbac.authorization.k8s.io", "v1", "RoleBinding", meta.RESTScopeNamespace},
	{"rbac.authorization.k8s.io", "v1", "ClusterRole", meta.RESTScopeRoot},
	{"rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", meta.RESTScopeRoot},
	{"coordination.k8s.io", "v1", "Lease", meta.RESTScopeNamespace},
	{"certificates.k8s.io", "v1", "CertificateSigningRequest", meta.RESTScopeRoot},
	{"events.k8s.io", "v1", "Event", meta.RESTScopeNamespace},
	{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", meta.RESTScopeRoot},
	{"authorization.k8s.io", "v1", "SubjectAccessReview", meta.RESTScopeRoot},
	{"authorization.k8s.io", "v1", "SelfSubjectAccessReview", meta.RESTScopeRoot},
}

// Static returns a mapper for the kinds of the wire and for those of Kubernetes'
// kinds that the project's own clients use. Any other kind is a
// *meta.NoKindMatchError.
func Static() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, x := range mappings {
		m.Add(schema.GroupVersionKind{Group: x.group, Version: x.version, Kind: x.kind}, x.scope)
	}
	return m
}
