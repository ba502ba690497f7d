package muster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// shortHash is as much of a hash as names carry: 64 bits, in hexadecimal digits.
const shortHash = 16

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// CloudID is a short name of a logical cloud: the same for one namespace and
// name, and fit for labels and for names of objects.
func CloudID(namespace, name string) string { return hash(namespace + "/" + name)[:shortHash] }

// CloudWork is the name of the ManifestWork that carries a logical cloud into a
// cluster; it is in the cluster's namespace on the hub.
func CloudWork(namespace, name string) string { return "muster-cloud-" + CloudID(namespace, name) }

// CloudProbe is the name of the ManifestWork that finds out whether a cluster has
// the namespace of a logical cloud already.
func CloudProbe(namespace, name string) string {
	return "muster-cloud-probe-" + CloudID(namespace, name)
}

// AccountNamespacePrefix is what the names of the namespaces begin with that have the
// service accounts of users, in managed clusters.
const AccountNamespacePrefix = "muster-access-"

// AccountNamespace is the namespace in managed clusters with the service accounts of
// a logical cloud's users, given the hub's ID and the cloud's CloudID. It is another
// one than the cloud's own, in which users have rights.
func AccountNamespace(hubID, cloudID string) string {
	return AccountNamespacePrefix + hubID + "-" + cloudID
}

// Credential is the name of the ClusterCredential of an access request, given the
// request's UID; it is in the cluster's namespace on the hub.
func Credential(uid string) string { return "muster-access-" + uid }

// DerivedClusterName is the name of the ManagedCluster that the hub creates for a
// client ID that no cluster has.
func DerivedClusterName(clientID string) string { return "cluster-" + hash(clientID)[:shortHash] }

// ReservedNamespace says why a namespace of managed clusters can't be a logical
// cloud's; "" when it can.
func ReservedNamespace(name string) string {
	switch {
	case name == "default", strings.HasPrefix(name, "kube-"):
		return "it is a namespace of Kubernetes"
	case strings.HasPrefix(name, "open-cluster-management"), strings.HasPrefix(name, "muster-"), name == "muster":
		return "namespaces of this name are the agent's"
	case strings.HasPrefix(name, "openshift-"), name == "openshift":
		return "it is a namespace of OpenShift"
	}
	return ""
}
