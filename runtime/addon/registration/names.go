// Package registration is what hub and agent have to agree about when an add-on's
// agent gets its credentials: who the agent is on the hub, which Secret holds what,
// how certificate requests look and which of them the hub approves, when a credential
// is renewed, and the texts of conditions.
//
// It decides and asks nobody: no client, no clock, no state. Hub and agent import it,
// and it imports neither.
package registration

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// TokenKey is the key of a Secret that holds the token of a service account on the
// hub. The other keys are those of the Secret of the cluster's own agent:
// cluster.KubeconfigKey, cluster.ClusterNameKey, cluster.TLSCertKey and
// cluster.TLSKeyKey.
const TokenKey = "token"

// Entries of the kubeconfig in a Secret.
const (
	KubeconfigUser      = "default-auth"
	KubeconfigContext   = "default-context"
	KubeconfigNamespace = "configuration"
)

// User is the name on the hub of an agent of an add-on in a cluster.
func User(clusterName, addOn, agent string) string {
	return ClusterAddOnGroup(clusterName, addOn) + ":agent:" + agent
}

// TemplateAgent is the agent's name of add-ons from templates, as in User.
func TemplateAgent(addOn string) string { return addOn + "-agent" }

// ClusterAddOnGroup is the group of an add-on's agents in one cluster.
func ClusterAddOnGroup(clusterName, addOn string) string {
	return cluster.ClusterAddOnGroup(clusterName, addOn)
}

// AddOnGroup is the group of an add-on's agents in all clusters.
func AddOnGroup(addOn string) string { return cluster.AddOnGroup(addOn) }

// Groups are the groups of an add-on's agents in one cluster.
func Groups(clusterName, addOn string) []string {
	return []string{ClusterAddOnGroup(clusterName, addOn), AddOnGroup(addOn)}
}

// ServiceAccount is the service account, in the cluster's namespace on the hub, whose
// tokens the agent of an add-on gets with the driver DriverToken.
func ServiceAccount(addOn string) string { return addOn + "-agent" }

// TokenRole is the Role, and the RoleBinding, by which the cluster's agent may ask for
// these tokens.
func TokenRole(addOn string) string { return addOn + "-token-role" }

// ServiceAccountUser is the user name of that service account.
func ServiceAccountUser(clusterName, addOn string) string {
	return "system:serviceaccount:" + clusterName + ":" + ServiceAccount(addOn)
}

// KubeClientSecret is the Secret, in the managed cluster, with an add-on's credentials
// for the hub's API.
func KubeClientSecret(addOn string) string { return addOn + "-hub-kubeconfig" }

// CustomSignerSecret is the Secret with an add-on's certificate of a signer.
func CustomSignerSecret(addOn, signer string) string {
	return addOn + "-" + strings.ReplaceAll(signer, "/", "-") + "-client-cert"
}

// RequestPrefix begins the names of an add-on's certificate requests. It is their
// generateName.
func RequestPrefix(clusterName, addOn string) string {
	return "addon-" + clusterName + "-" + addOn + "-"
}

// RequestLabels are on an add-on's certificate requests.
func RequestLabels(clusterName, addOn string) map[string]string {
	return map[string]string{cluster.NameLabel: clusterName, cluster.AddOnNameLabel: addOn}
}

// DNSName is in an add-on's certificates.
func DNSName(addOn string) string { return addOn + ".addon.open-cluster-management.io" }

// InstallNamespace is the namespace of the managed cluster that an add-on's agent and
// its credentials are in.
func InstallNamespace(a *addonv1beta1.ManagedClusterAddOn) string {
	return cmp.Or(a.Status.Namespace, a.Annotations[addon.InstallNamespaceAnnotation], addon.DefaultInstallNamespace)
}

// HostingCluster is the cluster that an add-on's agent runs in, when it is not the
// add-on's own, and "" otherwise.
func HostingCluster(a *addonv1beta1.ManagedClusterAddOn) string {
	return a.Annotations[addon.HostingClusterAnnotation]
}

// digest is a name for what parts say. Their borders count.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		_, _ = sum.Write([]byte(p))
		_, _ = sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil))
}
