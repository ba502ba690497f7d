package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Identities.
const (
	// UserPrefix is what the user names of agents begin with.
	UserPrefix = "system:open-cluster-management:"
	// ManagedClustersGroup is the group of all agents.
	ManagedClustersGroup = UserPrefix + "managed-clusters"
	// BootstrapGroup is the group of bootstrap tokens that may register any cluster.
	BootstrapGroup = "system:bootstrappers:managedcluster"
)

// Objects on the hub.
const (
	// Namespace is where the bootstrap service account lives.
	Namespace = "open-cluster-management"
	// HubNamespace is where upstream runs the hub's components.
	HubNamespace = "open-cluster-management-hub"
	// BootstrapServiceAccount may register any cluster.
	BootstrapServiceAccount = "agent-registration-bootstrap"
	// BootstrapUser is that service account's user name.
	BootstrapUser = "system:serviceaccount:" + Namespace + ":" + BootstrapServiceAccount
	// BootstrapRole is the ClusterRole of those that may register any cluster.
	BootstrapRole = "open-cluster-management:bootstrap"

	// RegistrationRole and WorkRole are the ClusterRoles that every agent is
	// bound to in its cluster's namespace.
	RegistrationRole = "open-cluster-management:managedcluster:registration"
	WorkRole         = "open-cluster-management:managedcluster:work"
	// AddOnManagerAggregateRole is the ClusterRole with the rights that cluster roles
	// give to the add-on manager by a label. Its name is upstream's.
	AddOnManagerAggregateRole = "open-cluster-management:cluster-manager-addon-manager:aggregate"

	rolePrefix  = "open-cluster-management:managedcluster:"
	groupPrefix = "open-cluster-management:"

	// clusterSegment and addOnSegment are where the names of add-ons' agents have the
	// cluster's name in those of agents.
	clusterSegment = "cluster"
	addOnSegment   = "addon"
)

// Objects in the managed cluster.
const (
	// AgentNamespace is where the agent lives.
	AgentNamespace = "open-cluster-management-agent"
	// BootstrapSecret holds the bootstrap kubeconfig under the key "kubeconfig".
	BootstrapSecret = "bootstrap-hub-kubeconfig"
	// HubKubeconfigSecret holds the agent's own identity on the hub.
	HubKubeconfigSecret = "hub-kubeconfig-secret"
	// AddOnRole is the ClusterRole with what the agent needs in a namespace in which
	// add-ons are installed.
	AddOnRole = "open-cluster-management:klusterlet-addon:agent"
)

// Keys of HubKubeconfigSecret.
const (
	KubeconfigKey  = "kubeconfig"
	ClusterNameKey = "cluster-name"
	AgentNameKey   = "agent-name"
	// UsedBootstrapKey is muster's own: the digest of the bootstrap kubeconfig that
	// was deleted after the registration.
	UsedBootstrapKey = "muster-used-bootstrap"
	TLSKeyKey        = "tls.key"
	TLSCertKey       = "tls.crt"
)

// Group is the group of a cluster's agents. It is the organization in their
// certificates.
func Group(cluster string) string { return UserPrefix + cluster }

// GroupWithoutPrefix is the same group for identity providers that forbid the
// prefix "system:"; bindings name both.
func GroupWithoutPrefix(cluster string) string { return groupPrefix + cluster }

// CommonName is the user name of one agent of a cluster.
func CommonName(cluster, agent string) string { return UserPrefix + cluster + ":" + agent }

// AddOnGroup is the group of an add-on's agents in all clusters.
func AddOnGroup(addOn string) string { return UserPrefix + addOnSegment + ":" + addOn }

// ClusterAddOnGroup is the group of an add-on's agents in one cluster.
func ClusterAddOnGroup(cluster, addOn string) string {
	return UserPrefix + clusterSegment + ":" + cluster + ":" + addOnSegment + ":" + addOn
}

// ParseCommonName splits an agent's user name. ok is false when name is not of
// the form that CommonName makes.
func ParseCommonName(name string) (cluster, agent string, ok bool) {
	rest, ok := strings.CutPrefix(name, UserPrefix)
	if !ok {
		return "", "", false
	}
	cluster, agent, ok = strings.Cut(rest, ":")
	if !ok || cluster == "" || agent == "" || strings.Contains(agent, ":") {
		return "", "", false
	}
	return cluster, agent, true
}

// BoundBootstrapGroup is the group of bootstrap tokens that may register this
// cluster and no other. It is muster's own; OCM has no such thing.
func BoundBootstrapGroup(cluster string) string { return BootstrapGroup + ":" + cluster }

// BoundCluster is the cluster that a bootstrap token's group binds it to.
func BoundCluster(group string) (cluster string, ok bool) {
	cluster, ok = strings.CutPrefix(group, BootstrapGroup+":")
	return cluster, ok && cluster != ""
}

// RoleName is the ClusterRole, and the binding, of a cluster's agents.
func RoleName(cluster string) string { return rolePrefix + cluster }

// RegistrationBindingName is the RoleBinding to RegistrationRole, in the
// cluster's namespace.
func RegistrationBindingName(cluster string) string { return RoleName(cluster) + ":registration" }

// WorkBindingName is the RoleBinding to WorkRole, in the cluster's namespace.
func WorkBindingName(cluster string) string { return RoleName(cluster) + ":work" }

// ReservedClaims are the names of claims that every cluster may report, however
// many others it has.
func ReservedClaims() []string {
	return []string{"id.k8s.io", "kubeversion.open-cluster-management.io", "platform.open-cluster-management.io", "product.open-cluster-management.io"}
}

// ManagedNamespaceLabel is the label on namespaces that the hub at this URL
// wants in a managed cluster.
func ManagedNamespaceLabel(hubURL string) string {
	sum := sha256.Sum256([]byte(hubURL))
	return ManagedNamespaceLabelPrefix + hex.EncodeToString(sum[:])[:63]
}
