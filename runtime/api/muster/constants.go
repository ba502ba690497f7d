// Package muster holds what is on the wire in the API group muster-fleet.io,
// muster's own: names, labels, annotations, condition types and reasons of user
// access, of cluster imports, of registration by a client ID and of previews. An
// upstream hub has none of these kinds, and an upstream agent takes no notice of them.
package muster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// GroupName is the API group of muster's own kinds.
const GroupName = "muster-fleet.io"

// Labels and annotations.
const (
	// ClientIDAnnotation on a ManagedCluster is the client ID by which an agent
	// that does not know the cluster's name finds it.
	ClientIDAnnotation = "muster-fleet.io/client-id"
	// ClusterUIDAnnotation on a ManagedCluster is the UID of the namespace
	// kube-system of the cluster that registered under this name, or in which
	// Terraform has installed its agent. Another cluster can't register by the
	// client ID.
	ClusterUIDAnnotation = "muster-fleet.io/cluster-uid"
	// ClusterAuthorityAnnotation on a ManagedCluster is who vouched for the API server
	// of the cluster when a ClusterImport installed its agent first, as in
	// status.clusterAuthority there. It outlives the import.
	ClusterAuthorityAnnotation = "muster-fleet.io/cluster-authority"
	// GoneAnnotation on a ManagedCluster says "true" when the cluster is gone for good:
	// Terraform does not wait for its agent then, unless the hub hears from it.
	GoneAnnotation = "muster-fleet.io/gone"
	// RegistrationLabel on a ManagedCluster names the ClusterRegistration that
	// it was created for.
	RegistrationLabel = "muster-fleet.io/cluster-registration"

	// LogicalCloudLabel is on each ManifestWork and ClusterCredential of a logical
	// cloud. Its value is the cloud's CloudID. Nobody but the hub may write
	// works with it.
	LogicalCloudLabel = "muster-fleet.io/logical-cloud"
	// LogicalCloudAnnotation on the same objects is the cloud, as
	// namespace/name.
	LogicalCloudAnnotation = "muster-fleet.io/logical-cloud-name"
	// BoundKeysAnnotation on a logical cloud's ManifestWork lists the hashes of
	// the keys, separated by commas, whose groups the manifests bind to roles.
	BoundKeysAnnotation = "muster-fleet.io/bound-keys"
	// RetentionAnnotation on the same work says what becomes of the cloud's
	// namespace when the work is deleted: Keep or Delete.
	RetentionAnnotation = "muster-fleet.io/on-delete"
	// AccountNamespaceAnnotation on the same work is the namespace in the cluster
	// with the service accounts of users; "" is none.
	AccountNamespaceAnnotation = "muster-fleet.io/account-namespace"
	// AdoptedAnnotation on the same work and on the cloud's namespace in the
	// cluster says "true" when the namespace was there before the cloud.
	AdoptedAnnotation = "muster-fleet.io/adopted"
	// HubMadeLabel with the value "true" is on the AccessRequests that the hub makes
	// for logical clouds with the key policy HubMade.
	HubMadeLabel = "muster-fleet.io/hub-made"
	// UserAnnotation on a Secret with a key that the hub has made is its user.
	UserAnnotation = "muster-fleet.io/user"
	// HubAnnotation on the cloud's namespace in the cluster is the ID of the hub
	// with the cloud.
	HubAnnotation = "muster-fleet.io/hub"
	// AccessRequestAnnotation on a certificate request in a managed cluster is
	// the access request on the hub that it is made for, as namespace/name.
	AccessRequestAnnotation = "muster-fleet.io/access-request"
	// RequesterAnnotation on the same object is the user of the hub that asked.
	RequesterAnnotation = "muster-fleet.io/requester"

	// AcceptedByImportAnnotation on a ManagedCluster is the UID of the ClusterImport
	// for which the hub has accepted it. It does so once: a later denial stays.
	AcceptedByImportAnnotation = "muster-fleet.io/accepted-by-import"

	// InstalledByAnnotation on the agent's Deployment in a managed cluster tells
	// who installs the agent, so that a ClusterImport and Terraform don't take
	// turns in changing it.
	InstalledByAnnotation = "muster-fleet.io/installed-by"

	// AddOnAgentLabel on a Secret in a managed cluster says that the agent made it,
	// for an add-on. Its value is the agent's namespace. The agent deletes no Secret
	// without it.
	AddOnAgentLabel = "muster-fleet.io/addon-agent"
	// AddOnAnnotation on the same Secret is the add-on's name.
	AddOnAnnotation = "muster-fleet.io/addon"
	// AddOnRegistrationAnnotation on the same Secret is the digest of what the
	// credential was asked for with.
	AddOnRegistrationAnnotation = "muster-fleet.io/addon-registration"
)

// AddOnNamespacesSecret, in the agent's namespace, lists the namespaces in which the
// agent has made Secrets for add-ons, under AddOnNamespacesKey and one in each line,
// so that it finds those of add-ons that went while it was away.
const (
	AddOnNamespacesSecret = "muster-addon-namespaces"
	AddOnNamespacesKey    = "namespaces"
)

// TerraformFieldManager is whose the fields are that the Terraform provider sets.
const TerraformFieldManager = "terraform-provider-muster"

// Who installs an agent, in the annotation InstalledByAnnotation.
const (
	// InstalledByTerraform is the provider's muster_klusterlet.
	InstalledByTerraform = "Terraform"
	// InstalledByImport is a ClusterImport.
	InstalledByImport = "ClusterImport"
)

// Verbs of RBAC that only the kinds of this group have.
const (
	// VerbUse on a LogicalCloud is the right to ask for access to it.
	VerbUse = "use"
	// VerbTunnel on an AccessRequest is the right to open a tunnel to its cluster, and on
	// a ClusterCredential that of the cluster's agent to come to the other end.
	VerbTunnel = "tunnel"
	// VerbGrantClusterScope on an AccessRole is the right to grant it beyond one
	// namespace.
	VerbGrantClusterScope = "grant-cluster-scope"
	// VerbAdopt on AdoptableNamespaces, by the name of a namespace in managed
	// clusters, is the right to let a cloud take over that namespace where it
	// exists.
	VerbAdopt = "adopt"
	// AdoptableNamespaces is what the right to adopt is about. There is no such
	// kind.
	AdoptableNamespaces = "adoptablenamespaces"
)

// ImportNamespace is the namespace on the hub with the Secrets that
// ClusterImports name.
const ImportNamespace = "muster-imports"

// HandedInForAnnotation on a Secret in ImportNamespace is the ClusterImport for which
// Terraform has made it, and may delete it.
const HandedInForAnnotation = "muster-fleet.io/handed-in-for"

// AccessKeyNamespace is the namespace on the hub with the keys, encrypted, that it
// makes for users of logical clouds with the key policy HubMade.
const AccessKeyNamespace = "muster-access-keys"

// KubeconfigSubresource of a LogicalCloud with the key policy HubMade is the
// kubeconfig of a user.
const KubeconfigSubresource = "kubeconfig"

// PolicyConfigMap is the config map in the agent's namespace of a managed cluster
// by which the cluster's owner limits user access.
const PolicyConfigMap = "muster-access-policy"

// AccessFinalizer is on LogicalClouds and AccessRequests while something of them
// is left in a cluster.
const AccessFinalizer = "muster-fleet.io/access"

// ImportFinalizer is on ClusterImports while the hub has something of them to
// remove.
const ImportFinalizer = "muster-fleet.io/cluster-import"

// Condition types of LogicalClouds.
const (
	// ConditionSelected says whether placements select clusters for the cloud.
	ConditionSelected = "Selected"
	// ConditionApplied says whether the cloud's objects are in all of them.
	ConditionApplied = "Applied"
	// ConditionReady says whether access can be had to all of them.
	ConditionReady = "Ready"
	// ConditionDeleting says what the deletion waits for.
	ConditionDeleting = "Deleting"
)

// Condition types of AccessRequests and ClusterCredentials.
const (
	// ConditionApproved says whether the hub lets the user have what is asked for.
	ConditionApproved = "Approved"
	// ConditionIssued says whether there is a certificate or a token.
	ConditionIssued = "Issued"
	// ConditionRevoked says whether the rights are withdrawn in the cluster.
	ConditionRevoked = "Revoked"
	// ConditionExpired says whether what was issued has ended.
	ConditionExpired = "Expired"
	// ConditionFailed says why nothing can be issued.
	ConditionFailed = "Failed"
)

// Annotations of ManifestWorkReplicaSets and ClusterManagementAddOns about the gates of their
// rollouts. Upstream's hub takes no notice of them.
const (
	// RolloutGatesAnnotation lists the gates as JSON: [{"group":"production"}]. Who may not
	// approve the object may add gates to one without, and not change or remove them.
	RolloutGatesAnnotation = "muster-fleet.io/rollout-gates"
	// ApproveRolloutAnnotation approves a group for the content of the object: the group's
	// name, or "name@digest", which is refused when the content has another digest by now.
	// The hub puts it into RolloutApprovalsAnnotation, with who has approved.
	ApproveRolloutAnnotation = "muster-fleet.io/approve-rollout"
	// RolloutApprovalsAnnotation lists the approvals as JSON. Only the hub writes it.
	RolloutApprovalsAnnotation = "muster-fleet.io/rollout-approvals"
	// RolloutPausedAnnotation says "true" when nothing more is to be handed out.
	RolloutPausedAnnotation = "muster-fleet.io/rollout-paused"
)

// VerbApprove is the right to approve groups of a replica set or an add-on, and to change
// their gates.
const VerbApprove = "approve"

// OverrideAnnotation on a ManifestWorkReplicaSet says how its works differ from cluster to
// cluster. It is the spec of a WorkOverride as JSON, or names a WorkOverride of the same
// namespace: by its name, or as "name@digest". With a digest nothing is handed out while the
// WorkOverride says something else. A set with an executor or with gates that names one needs
// the digest: otherwise those who may write WorkOverrides could change what is done in the
// executor's name, or what was approved. On an AddOnTemplate, which has no namespace, it is the
// spec itself, and says the same of the add-on's manifests.
const OverrideAnnotation = "muster-fleet.io/override"

// OverrideDigestAnnotation on a WorkOverride is the digest of its spec. Only the hub writes it.
const OverrideDigestAnnotation = "muster-fleet.io/digest"

// ConditionOverridden of a replica set with a WorkOverride says whether each of its clusters
// could be given its own content.
const ConditionOverridden = "Overridden"

// Reasons of the condition Overridden.
const (
	ReasonOverridden       = "Overridden"       // every cluster could
	ReasonOverrideNotFound = "OverrideNotFound" // there is no such WorkOverride, or it says something else
	ReasonOverrideUnusable = "OverrideUnusable" // it does not fit the set, and nothing is handed out
	ReasonClustersWithout  = "ClustersWithout"  // some clusters lack a value, and get nothing new
)

// ConditionGatesOpen of a replica set with gates, or one that is paused, says whether the
// rollout goes on.
const ConditionGatesOpen = "GatesOpen"

// Reasons of the condition GatesOpen.
const (
	ReasonNothingHeldBack  = "NothingHeldBack"  // no cluster waits for a gate
	ReasonAwaitingApproval = "AwaitingApproval" // somebody has to approve the next group
	ReasonWaitingForWindow = "WaitingForWindow" // the next group begins when a window opens
	ReasonPaused           = "Paused"           // somebody has paused the rollout
	ReasonGatesUnreadable  = "GatesUnreadable"  // the annotation can't be read, so nothing is handed out
)

// EventRolloutApproved is the reason of the event that says who has approved a group.
const EventRolloutApproved = "RolloutApproved"

// Condition types of ClusterImports.
const (
	// ConditionKubeconfigUsable says whether the hub can use the kubeconfig.
	ConditionKubeconfigUsable = "KubeconfigUsable"
	// ConditionAgentInstalled says whether the agent is installed as asked.
	ConditionAgentInstalled = "AgentInstalled"
	// ConditionJoined says whether the cluster has joined.
	ConditionJoined = "Joined"
	// ConditionDrifted says whether the agent's objects were changed by others.
	ConditionDrifted = "Drifted"
)

// Reasons of the conditions of ClusterImports.
const (
	ReasonUsable             = "Usable"             // the kubeconfig leads to the cluster
	ReasonSecretMissing      = "SecretMissing"      // there is no Secret with a kubeconfig
	ReasonForgotten          = "Forgotten"          // the hub has deleted the kubeconfig after the cluster had joined
	ReasonKubeconfigRefused  = "KubeconfigRefused"  // the kubeconfig would run or reach what it must not
	ReasonUnreachable        = "Unreachable"        // the cluster does not answer
	ReasonUnauthorized       = "Unauthorized"       // the cluster does not take the credentials
	ReasonAnotherCluster     = "AnotherCluster"     // the kubeconfig leads to another cluster than before
	ReasonAnotherAuthority   = "AnotherAuthority"   // another authority vouches for the cluster's API server than before
	ReasonInstalledByOther   = "InstalledByOther"   // somebody else installs the agent
	ReasonInstalled          = "Installed"          // the agent is as it should be
	ReasonRollingOut         = "RollingOut"         // the agent is written, and its pod does not run yet
	ReasonInstallFailed      = "InstallFailed"      // an object of the agent could not be written
	ReasonKubeconfigNeeded   = "KubeconfigNeeded"   // something is to be changed, and the kubeconfig is gone
	ReasonWaitingForAgent    = "WaitingForAgent"    // the agent has not registered yet
	ReasonWaitingForApproval = "WaitingForApproval" // the hub does not accept the cluster
	ReasonRejoinNeeded       = "RejoinNeeded"       // the cluster has joined before, and its agent has no identity any more
	ReasonClusterJoined      = "ClusterJoined"      // the cluster has joined
	ReasonAsInstalled        = "AsInstalled"        // nobody has changed the agent's objects
	ReasonRepaired           = "Repaired"           // somebody has changed them, and the hub has restored them
	ReasonNotLookedAt        = "NotLookedAt"        // the hub can't look at them
)

// ConditionRegistered of a ClusterRegistration says whether the agent may go on
// under the name in its status.
const ConditionRegistered = "Registered"

// Reasons of the condition Registered.
const (
	ReasonRegistered          = "Registered"          // the agent may go on under the name in the status
	ReasonTokenGone           = "TokenGone"           // the token was revoked before there was an answer
	ReasonTokenExpired        = "TokenExpired"        // the token expired before there was an answer
	ReasonTokenUnusable       = "TokenUnusable"       // what the token's Secret says can't be understood
	ReasonTokenUsedUp         = "TokenUsedUp"         // the token has registered as many clusters as it may
	ReasonTokenNotFor         = "TokenNotFor"         // the token is for other clusters or client IDs
	ReasonClientIDNotUnique   = "ClientIDNotUnique"   // several clusters are prepared with the client ID
	ReasonClientIDDiffers     = "ClientIDDiffers"     // the cluster has another client ID
	ReasonProofRequired       = "ProofRequired"       // the token does not prove that the agent may have the cluster
	ReasonAlreadyJoined       = "AlreadyJoined"       // the cluster has joined before
	ReasonClusterNameTaken    = "ClusterNameTaken"    // the name that the cluster would get is another one's
	ReasonClusterBeingDeleted = "ClusterBeingDeleted" // the cluster is being deleted
)

// Reasons of the conditions of LogicalClouds, and of clusters in their status.
const (
	ReasonClustersSelected  = "ClustersSelected"  // placements select clusters
	ReasonNoClusters        = "NoClusters"        // they select none
	ReasonPlacementNotFound = "PlacementNotFound" // a placement does not exist
	ReasonAllClusters       = "AllClusters"       // it holds in all clusters
	ReasonInProgress        = "InProgress"        // clusters are on their way there
	ReasonClustersFailed    = "ClustersFailed"    // clusters can't get there
	ReasonGrantsFailed      = "GrantsFailed"      // a grant can't be given
	ReasonNamespaceTaken    = "NamespaceTaken"    // another cloud has the namespace in the cluster
	ReasonProbing           = "Probing"           // whether the namespace exists is not known yet
	ReasonApplying          = "Applying"          // the agent has not applied everything yet
	ReasonApplyFailed       = "ApplyFailed"       // the agent could not apply something
	ReasonTooManyKeys       = "TooManyKeys"       // the work has no room for more keys
	ReasonLeaving           = "Leaving"           // what an earlier time left is being removed
	ReasonEndpointUnknown   = "EndpointUnknown"   // nobody knows where the cluster's API server is
	ReasonClustersLeft      = "ClustersLeft"      // the cloud is still in clusters
)

// Reasons of the condition Failed, and of Approved when it is False.
const (
	ReasonNotGranted            = "NotGranted"            // no grant of the cloud names the user
	ReasonClusterNotSelected    = "ClusterNotSelected"    // no placement of the cloud selects the cluster
	ReasonClusterNotAccepted    = "ClusterNotAccepted"    // the hub does not accept the cluster
	ReasonKeyRevoked            = "KeyRevoked"            // the key was withdrawn, and its certificate lives on
	ReasonAgentUnable           = "AgentUnable"           // the cluster's agent does not do user access
	ReasonAgentOffline          = "AgentOffline"          // the cluster's agent gives no sign of life
	ReasonRefusedByPolicy       = "RefusedByPolicy"       // the cluster's owner does not allow it
	ReasonSignerSilent          = "SignerSilent"          // the cluster's signer does not answer
	ReasonSignerIgnoredLifetime = "SignerIgnoredLifetime" // the certificate lives longer than asked
	ReasonRequestTampered       = "RequestTampered"       // what the agent got is not what was asked for
	ReasonNamespaceExists       = "NamespaceExists"       // the cloud's namespace is somebody else's

	ReasonAccountNamespaceExists = "AccountNamespaceExists" // the namespace of users' service accounts is somebody else's
)

// Reasons of events about user access. Those of its condition types are the
// others.
const (
	EventAccessRefused = "AccessRefused" // a request was refused at once; the event is on the logical cloud
	// EventKubeconfigHandedOut is for each kubeconfig with a key that the hub has
	// made; the event is on the logical cloud.
	EventKubeconfigHandedOut = "KubeconfigHandedOut"
	// EventTunnelOpened and EventTunnelClosed are for each tunnel to a cluster; the
	// events are on the access request.
	EventTunnelOpened = "TunnelOpened"
	EventTunnelClosed = "TunnelClosed"
)

// TunnelAnnotation on a ManagedCluster says that its agent takes tunnels, and where the
// agent reaches the cluster's API server: an endpoint in JSON as in the status of access
// requests. The agent writes it.
const TunnelAnnotation = "agent.open-cluster-management.io/tunnel"

// UserAccessAnnotation on a ManagedCluster says in which modes its agent lets users
// in, separated by commas: "Certificate,Token". The agent writes it. Without it the
// agent does no user access.
const UserAccessAnnotation = "agent.open-cluster-management.io/user-access"

// WorkPreviewsAnnotation on a ManagedCluster says "true" when its agent answers
// WorkPreviews. The agent writes it. It also shows that works are applied by muster's agent.
const WorkPreviewsAnnotation = "agent.open-cluster-management.io/work-previews"

// PreviewsAskedAnnotation on a ManagedCluster is the resource version of the latest
// WorkPreview that waits for the agent. The hub writes it: agents watch their
// ManagedCluster anyway, so none needs a watch of its own for what is rarely asked.
const PreviewsAskedAnnotation = "muster-fleet.io/previews-asked"

// AddOnsAnnotation on a ManagedCluster says "true" while its namespace has add-ons. The hub
// writes it, so that an agent needs a watch of add-ons only where there are any.
const AddOnsAnnotation = "muster-fleet.io/add-ons"

// PreviewLifetime is how long a WorkPreview stays.
const PreviewLifetime = 5 * time.Minute

// ConditionPreviewed of a WorkPreview says whether the agent has answered.
const ConditionPreviewed = "Previewed"

// Reasons of the condition Previewed.
const (
	ReasonPreviewed     = "Previewed"     // the status says what the work would do
	ReasonPreviewFailed = "PreviewFailed" // the agent could not find out
)

// Labels of the certificate requests that an agent makes for users.
const (
	// AccessHubLabel is the hub's ID.
	AccessHubLabel = "muster-fleet.io/access-hub"
	// AccessClusterLabel is the cluster's name on the hub.
	AccessClusterLabel = "muster-fleet.io/access-cluster"
)

// How long access may last, in seconds.
const (
	MinLifetimeSeconds = 600
	MaxLifetimeSeconds = 31536000
)

// Reasons of the condition Issued of a ClusterCredential.
const (
	ReasonCertificateIssued     = "CertificateIssued"     // the cluster has signed a certificate
	ReasonTokenIssued           = "TokenIssued"           // the cluster has issued a token
	ReasonServiceAccountMissing = "ServiceAccountMissing" // the cloud's work has not brought the token's service account yet
	ReasonTryingAgain           = "TryingAgain"           // the cluster's API server does not do what the agent asks for
)

// Further reasons of the condition Failed of a ClusterCredential.
const (
	ReasonSignerRefused = "SignerRefused" // the cluster's signer has refused to sign
	ReasonRequestDenied = "RequestDenied" // somebody in the cluster has denied the certificate request
)

// EndpointsAnnotation on a ManagedCluster says where users reach its API server,
// in place of what its agent reports: a list in JSON of endpoints as in the status
// of access requests, with url and caBundle. Administrators of the hub set it.
const EndpointsAnnotation = "muster-fleet.io/api-endpoints"

// Reasons of conditions of AccessRequests beside those why there is no access.
const (
	ReasonGranted          = "Granted"          // Approved: a grant names the user
	ReasonWaitingForRights = "WaitingForRights" // Issued: the key is not bound to roles in the cluster yet
	ReasonWithdrawing      = "Withdrawing"      // Revoked: the rights are not withdrawn in the cluster yet
	ReasonEnded            = "Ended"            // Expired: the time is over
	ReasonTooManyRevoked   = "TooManyRevoked"   // Revoked: the cloud remembers as many withdrawn keys as it can
)

// PlaceKey is the entry of an agent's identity Secret with what the agent knows of
// other endpoints of its hub.
const PlaceKey = "muster-hub-place.json"

// AgentFieldManager is the field manager of what an agent writes into its bootstrap
// Secret when its hub has moved, so that others know that it is meant to be so.
const AgentFieldManager = "muster-agent"

// ConditionHubEndpointCurrent of a ManagedCluster says whether its agent uses the
// hub's newest URL and CA. The agent writes it.
const ConditionHubEndpointCurrent = "HubEndpointCurrent"

// FormatEndpointGeneration begins each message of that condition: the generation
// of the hub's endpoints that the agent has followed, and what it says about it.
const FormatEndpointGeneration = "generation %d: %s"

// Reasons of the condition HubEndpointCurrent.
const (
	ReasonEndpointCurrent            = "Current"            // the agent is where the hub wants it
	ReasonOwnEndpoint                = "OwnEndpoint"        // it has a URL that the hub has never published
	ReasonEndpointUnreachable        = "Unreachable"        // the new endpoint does not answer
	ReasonEndpointUntrusted          = "Untrusted"          // the published authorities don't verify it
	ReasonEndpointRefusesCertificate = "CertificateRefused" // it does not take the agent's certificate
	ReasonAnotherHub                 = "AnotherHub"         // it is not the agent's hub
	ReasonEndpointsInvalid           = "Invalid"            // what the hub publishes can't be used
	ReasonFellBack                   = "FellBack"           // the agent went back, as the new endpoint was lost
	ReasonFormerAuthority            = "FormerAuthority"    // the agent's certificate is still one of the old authority
)

// EndpointGeneration reads the generation from a message of the condition
// HubEndpointCurrent; 0 when it has none.
func EndpointGeneration(message string) int64 {
	var generation int64
	if _, err := fmt.Sscanf(message, "generation %d:", &generation); err != nil {
		return 0
	}
	return generation
}

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
