package cluster

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
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

// Part is what an identity is in the cluster that it belongs to.
type Part uint8

const (
	// Agent is the cluster's own agent, going by a group.
	Agent Part = iota
	// Member is anybody else whose name or group names the cluster: the agent of an
	// add-on, or a user with the name of an agent and without its group.
	Member
	// Account is a service account in the namespace of the cluster's name. It belongs
	// to the cluster only if that namespace is the cluster's, see NamespaceOf.
	Account
)

// Belonging is a cluster that an identity belongs to.
type Belonging struct {
	Cluster string
	Part    Part
	// Plain is true when only names without the prefix "system:" say so. Identity
	// providers have other groups with that beginning, so it counts only when the hub
	// has a cluster by the name.
	Plain bool
}

// Prefixes of the names of service accounts.
const (
	accountPrefix       = "system:serviceaccount:"
	accountsGroupPrefix = "system:serviceaccounts:"
)

// BelongsTo are the clusters that an identity belongs to: none for most, one for an
// agent, an add-on's agent and a service account, and several for an identity that
// somebody has put together. The groups of all agents, and of an add-on's agents in all
// clusters, name none, and neither do bootstrap tokens, which are bound to a cluster but
// are not in it.
func BelongsTo(user string, groups []string) []Belonging {
	var all []Belonging
	add := func(b Belonging, ok bool) {
		if !ok {
			return
		}
		at := slices.IndexFunc(all, func(other Belonging) bool {
			return other.Cluster == b.Cluster && (other.Part == Account) == (b.Part == Account)
		})
		if at < 0 {
			all = append(all, b)
			return
		}
		all[at].Part, all[at].Plain = min(all[at].Part, b.Part), all[at].Plain && b.Plain
	}
	for _, g := range groups {
		add(ofName(g, true))
	}
	add(ofName(user, false))
	return all
}

// AgentClusters are the clusters whose agents a user is one of, going by the user's
// groups.
func AgentClusters(groups []string) []string {
	var names []string
	for _, b := range BelongsTo("", groups) {
		if b.Part == Agent {
			names = append(names, b.Cluster)
		}
	}
	return names
}

// ofName is the cluster that the name of a group or user names.
func ofName(name string, isGroup bool) (Belonging, bool) {
	if namespace, ok := strings.CutPrefix(name, accountsGroupPrefix); ok && isGroup {
		return Belonging{Cluster: namespace, Part: Account}, namespace != ""
	}
	if rest, ok := strings.CutPrefix(name, accountPrefix); ok && !isGroup {
		namespace, _, _ := strings.Cut(rest, ":")
		return Belonging{Cluster: namespace, Part: Account}, namespace != ""
	}
	rest, ok := strings.CutPrefix(name, UserPrefix)
	plain := !ok
	if plain {
		if rest, ok = strings.CutPrefix(name, groupPrefix); !ok {
			return Belonging{}, false
		}
	}
	parts := strings.Split(rest, ":")
	b := Belonging{Cluster: parts[0], Part: Member, Plain: plain}
	switch {
	case name == ManagedClustersGroup, isGroup && parts[0] == addOnSegment && len(parts) > 1:
		return Belonging{}, false
	case parts[0] == clusterSegment && len(parts) >= 4 && parts[2] == addOnSegment:
		b.Cluster = parts[1]
	case isGroup && len(parts) == 1:
		b.Part = Agent
	case len(parts) == 1:
		return Belonging{}, false // a user by the name of a group
	}
	return b, b.Cluster != ""
}

// RequestIdentity is the agent that a certificate request asks a certificate
// for.
type RequestIdentity struct {
	// Cluster is the managed cluster, Agent the agent within it.
	Cluster, Agent string
	// CommonName is the user name that the certificate would carry.
	CommonName string
}

// ParseRequest reads the identity that a certificate request asks for. Its error
// says why a request is none that an agent makes.
//
// The request must carry the cluster's name in a label, be for client
// certificates, and have as its subject the cluster's group, optionally the
// group of all managed clusters, and one agent of the cluster.
func ParseRequest(labels map[string]string, signer string, request []byte) (RequestIdentity, error) {
	name := labels[NameLabel]
	if name == "" {
		return RequestIdentity{}, fmt.Errorf("the label %s, which names the cluster, is missing", NameLabel)
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return RequestIdentity{}, fmt.Errorf("the label %s is %q, which is not a cluster's name: %s", NameLabel, name, problems[0])
	}
	if err := ReservedName(name); err != nil {
		return RequestIdentity{}, err
	}
	if signer != certificatesv1.KubeAPIServerClientSignerName {
		return RequestIdentity{}, fmt.Errorf("the signer is %q, and agents ask %q", signer, certificatesv1.KubeAPIServerClientSignerName)
	}
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return RequestIdentity{}, errors.New("the request is not a PEM block of type CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return RequestIdentity{}, fmt.Errorf("the request is not a certificate request: %w", err)
	}
	organizations := slices.DeleteFunc(slices.Clone(parsed.Subject.Organization), func(o string) bool {
		return o == ManagedClustersGroup
	})
	if len(organizations) != 1 || organizations[0] != Group(name) {
		return RequestIdentity{}, fmt.Errorf("the organizations are %q, and for the cluster %q of the label they must be %q and optionally %q",
			parsed.Subject.Organization, name, Group(name), ManagedClustersGroup)
	}
	of, agent, ok := ParseCommonName(parsed.Subject.CommonName)
	if !ok || of != name {
		return RequestIdentity{}, fmt.Errorf("the common name is %q, and for the cluster %q of the label it must be %q",
			parsed.Subject.CommonName, name, CommonName(name, "<agent>"))
	}
	return RequestIdentity{Cluster: name, Agent: agent, CommonName: parsed.Subject.CommonName}, nil
}

// ReservedName says why no managed cluster can have a name, in a sentence that
// ends with the remedy. It is nil when a cluster can. A cluster's name is the name of its
// namespace on the hub and a part of the names of its roles and groups: with a
// reserved one these would be those of the hub itself, or of all agents.
//
// It does not check whether the name is well-formed: that is a DNS label, as for
// every namespace.
func ReservedName(name string) error {
	why, ok := reserved[name]
	if !ok && strings.HasPrefix(name, Namespace+"-") {
		why, ok = "namespaces with the prefix "+Namespace+"- are those of the hub's and the agents' own components", true
	}
	if !ok {
		return nil
	}
	return refusedName(name, why)
}

// IsReserved reports whether no managed cluster can have a name.
func IsReserved(name string) bool { return ReservedName(name) != nil }

// reserved are names, and why they are: by the object that a cluster of that
// name would share. TestReservedNamesCoverAllWellKnownOnes derives them from the
// well-known names.
var reserved = map[string]string{
	strings.TrimPrefix(WorkRole, rolePrefix):             "its cluster role " + WorkRole + " is the one that every agent is bound to",
	strings.TrimPrefix(RegistrationRole, rolePrefix):     "its cluster role " + RegistrationRole + " is the one that every agent is bound to",
	strings.TrimPrefix(ManagedClustersGroup, UserPrefix): "its group " + ManagedClustersGroup + " is that of all agents",

	"default":         "the namespace default is everybody's",
	"kube-system":     "the namespace kube-system is Kubernetes' own",
	"kube-public":     "the namespace kube-public is Kubernetes' own",
	"kube-node-lease": "the namespace kube-node-lease is Kubernetes' own",
	Namespace:         "the namespace " + Namespace + " is the hub's own",

	muster.ImportNamespace: "the namespace " + muster.ImportNamespace + " is for the kubeconfigs of clusters to import",
}

// NewName says why no new managed cluster gets a name, in the words of ReservedName. It
// refuses more than that: names that only look like parts of the hub's own. Clusters that
// have such a name already stay what they are.
func NewName(name string) error {
	if err := ReservedName(name); err != nil {
		return err
	}
	why, ok := unsuitable[name]
	if !ok {
		return nil
	}
	return refusedName(name, why)
}

func refusedName(name, why string) error {
	return fmt.Errorf("no managed cluster can be called %q: %s: choose another name, such as %q", name, why, suggested(name))
}

// unsuitable are names that no new cluster gets. TestNewNamesCoverAllConstants derives
// them from the constants of runtime/api.
var unsuitable = map[string]string{
	muster.AccessKeyNamespace: "the namespace " + muster.AccessKeyNamespace + " is for the keys of users",

	clusterSegment: "names that begin with " + UserPrefix + clusterSegment + ": are those of add-ons' agents",
	addOnSegment:   "names that begin with " + UserPrefix + addOnSegment + ": are those of add-ons' agents",
	strings.TrimPrefix(BootstrapRole, groupPrefix):   "the cluster role " + BootstrapRole + " is that of bootstrap tokens",
	strings.Trim(rolePrefix[len(groupPrefix):], ":"): "cluster roles that begin with " + rolePrefix + " are those of all clusters",
	"klusterlet-addon": "the cluster role " + AddOnRole + " is that of agents",
	strings.Split(AddOnManagerAggregateRole, ":")[1]: "the cluster role " + AddOnManagerAggregateRole + " is that of the add-on manager",
}

// suggested is a name near a reserved one that is free.
func suggested(name string) string {
	return "cluster-" + strings.TrimPrefix(name, Namespace+"-")
}

// NamespaceOf says why an existing namespace with a cluster's name and these
// labels is not the cluster's, in a sentence that ends with the remedies. It is nil
// when it is the cluster's. The hub labels the namespaces that it makes for clusters, and the
// label stays when a cluster goes; any other namespace has another owner until
// it gets the label.
func NamespaceOf(name string, labels map[string]string) error {
	if labels[NameLabel] == name {
		return nil
	}
	return fmt.Errorf("the namespace %q exists and is not a cluster's, and what is in it would be the agent's to read: choose another name for the cluster, or hand the namespace over with \"kubectl label namespace %[1]s %s=%[1]s --overwrite\"", name, NameLabel)
}

// SharedRole reports whether a cluster role is one that all agents are bound to,
// whatever cluster's role its name looks like.
func SharedRole(name string) bool { return name == WorkRole || name == RegistrationRole }
