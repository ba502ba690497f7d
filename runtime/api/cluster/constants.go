// Package cluster holds what the versions of the group
// cluster.open-cluster-management.io have in common: the labels, annotations,
// finalizers, condition types, reasons and messages of the wire, and the names
// that are derived from a cluster's name.
package cluster

// GroupName is the API group of clusters, cluster sets and placements.
const GroupName = "cluster.open-cluster-management.io"

// RegisterGroupName is the group of the permissions that govern registration.
// No kind is served in it; it only appears in RBAC rules and access reviews.
const RegisterGroupName = "register.open-cluster-management.io"

// DefaultLeaseDurationSeconds is the time between heartbeats when a cluster's
// spec says 0, in seconds.
const DefaultLeaseDurationSeconds = 60

// LeaseGracePeriods is how many lease durations may pass without a heartbeat
// before the hub calls a cluster's availability Unknown.
const LeaseGracePeriods = 5

// Labels and annotations.
const (
	// NameLabel is on every hub object that belongs to one managed cluster; its
	// value is the cluster's name.
	NameLabel = "open-cluster-management.io/cluster-name"
	// ClusterSetLabel on a ManagedCluster names the set that it is a member of.
	ClusterSetLabel = "cluster.open-cluster-management.io/clusterset"
	// AddOnNameLabel is on hub objects that belong to an add-on.
	AddOnNameLabel = "open-cluster-management.io/addon-name"

	// PlacementLabel on a PlacementDecision names its placement.
	PlacementLabel = "cluster.open-cluster-management.io/placement"
	// DecisionGroupNameLabel on a PlacementDecision names its decision group;
	// empty for the clusters that no named group took.
	DecisionGroupNameLabel = "cluster.open-cluster-management.io/decision-group-name"
	// DecisionGroupIndexLabel on a PlacementDecision is its group's place in
	// the order of groups, from 0.
	DecisionGroupIndexLabel = "cluster.open-cluster-management.io/decision-group-index"

	// AutoUpdateAnnotation with the value "false" keeps the hub from rolling
	// back edits of the default and global sets.
	AutoUpdateAnnotation = "cluster.open-cluster-management.io/autoupdate"
	// SchedulingDisabledAnnotation with the value "true" freezes the decisions
	// of a placement.
	SchedulingDisabledAnnotation = "cluster.open-cluster-management.io/experimental-scheduling-disable"
	// SkipClockSyncAnnotation with the value "true" makes the hub count a
	// cluster's clock as synced.
	SkipClockSyncAnnotation = "registration.open-cluster-management.io/skip-clock-sync-check"
	// AutoAcceptedAnnotation records when the hub accepted a cluster by itself,
	// which it does only once.
	AutoAcceptedAnnotation = "open-cluster-management.io/automatically-accepted-on"
	// ImageRegistriesAnnotation on a ManagedCluster names, as JSON, the registries
	// that take the place of those in the images of its add-ons.
	ImageRegistriesAnnotation = "open-cluster-management.io/image-registries"
	// AgentAnnotationPrefix is what the keys of annotations begin with that an
	// agent may put on its own ManagedCluster.
	AgentAnnotationPrefix = "agent.open-cluster-management.io"
	// RenewCertificateAnnotation on a ManagedCluster asks its agent to renew its
	// client certificate now. The agent removes the annotation once it has the new
	// one; another value asks again. It is muster's own: upstream agents leave it.
	RenewCertificateAnnotation = "muster-fleet.io/renew-certificate"
	// CleanupPriorityAnnotation on an object in a cluster's namespace orders its
	// deletion with the cluster: 0 to 100, lowest first.
	CleanupPriorityAnnotation = "open-cluster-management.io/cleanup-priority"

	// SpokeOnlyLabel on a ClusterClaim keeps it off the hub.
	SpokeOnlyLabel = "open-cluster-management.io/spoke-only"
	// AddOnFeatureLabelPrefix is what the labels on a ManagedCluster begin with that
	// say whether its add-ons are available.
	AddOnFeatureLabelPrefix = "feature.open-cluster-management.io/addon-"
)

// Finalizers of a ManagedCluster.
const (
	// APIResourceCleanupFinalizer keeps a deleted cluster until its permissions
	// are withdrawn and no work is left.
	APIResourceCleanupFinalizer = "cluster.open-cluster-management.io/api-resource-cleanup"
	// ResourceCleanupFinalizer keeps a deleted cluster until its add-ons and
	// works are deleted.
	ResourceCleanupFinalizer = "cluster.open-cluster-management.io/resource-cleanup"
)

// Taints that the hub manages.
const (
	// UnavailableTaint is on clusters whose API server does not answer its agent.
	UnavailableTaint = "cluster.open-cluster-management.io/unavailable"
	// UnreachableTaint is on clusters whose agent does not answer the hub.
	UnreachableTaint = "cluster.open-cluster-management.io/unreachable"
)

// IsHubTaint reports whether the hub itself sets and removes taints with this key.
func IsHubTaint(key string) bool { return key == UnavailableTaint || key == UnreachableTaint }

// Condition types of a ManagedCluster.
const (
	// ConditionHubAccepted says whether the hub has granted the cluster its rights.
	ConditionHubAccepted = "HubAcceptedManagedCluster"
	// ConditionJoined turns True once the agent has used its own certificate.
	ConditionJoined = "ManagedClusterJoined"
	// ConditionAvailable says whether the cluster's API server answers; Unknown
	// when the agent has stopped reporting.
	ConditionAvailable = "ManagedClusterConditionAvailable"
	// ConditionClockSynced says whether hub and agent agree about the time.
	ConditionClockSynced = "ManagedClusterConditionClockSynced"
	// ConditionDeleting says what a deleted cluster still waits for.
	ConditionDeleting = "Deleting"
	// ConditionCertificateRotated says how the last renewal of the agent's
	// certificate went.
	ConditionCertificateRotated = "ClusterCertificateRotated"
)

// Reasons and messages of a ManagedCluster's conditions.
const (
	ReasonHubAccepted  = "HubClusterAdminAccepted"
	MessageHubAccepted = "Accepted by hub cluster admin"
	ReasonHubDenied    = "HubClusterAdminDenied"
	MessageHubDenied   = "Denied by hub cluster admin"
	ReasonError        = "Error"
	// ReasonNameReserved is muster's own: the cluster gets nothing, because
	// ReservedName refuses its name.
	ReasonNameReserved = "NameReserved"

	ReasonJoined  = "ManagedClusterJoined"
	MessageJoined = "Managed cluster joined"

	ReasonAvailable            = "ManagedClusterAvailable"
	MessageAvailable           = "Managed cluster is available"
	ReasonAPIServerUnavailable = "ManagedClusterKubeAPIServerUnavailable"
	// FormatAPIServerUnavailable takes the status code and what else is known.
	FormatAPIServerUnavailable = "The kube-apiserver is not ok, status code: %d, %s"
	ReasonLeaseUpdateStopped   = "ManagedClusterLeaseUpdateStopped"
	MessageLeaseUpdateStopped  = "Registration agent stopped updating its lease."

	ReasonClockSynced     = "ManagedClusterClockSynced"
	MessageClockSynced    = "The clock of the managed cluster is synced with the hub."
	ReasonClockOutOfSync  = "ManagedClusterClockOutOfSync"
	MessageClockOutOfSync = "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities."

	ReasonResourceRemaining = "ResourceRemaining"
	ReasonDeletingError     = "DeletingError"
	ReasonNoResource        = "NoResource"
	MessageNoResource       = "No cleaned resource in cluster ns."

	ReasonClientCertificateUpdated      = "ClientCertificateUpdated"
	ReasonClientCertificateUpdateFailed = "ClientCertificateUpdateFailed"
	// FormatClientCertificateUpdated takes the times between which the new
	// certificate is good, in the format of time.Time's String method.
	FormatClientCertificateUpdated = "client certificate rotated starting from %v to %v"
	// FormatClientCertificateUpdateFailed and FormatCreateRequestFailed take the error.
	FormatClientCertificateUpdateFailed = "Failed to rotated client certificate %v"
	FormatCreateRequestFailed           = "Failed to create CSR %v"
	MessageTooManyRequests              = "Stop creating csr since there are too many csr created already on hub"
)

// Cluster sets and their bindings.
const (
	// DefaultSet is the set that a cluster without a set label is put in.
	DefaultSet = "default"
	// GlobalSet is the set that every cluster is a member of.
	GlobalSet = "global"

	ConditionClusterSetEmpty = "ClusterSetEmpty"
	ReasonNoClusterMatched   = "NoClusterMatched"
	MessageNoClusterMatched  = "No ManagedCluster selected"
	ReasonClustersSelected   = "ClustersSelected"

	ConditionBound           = "Bound"
	ReasonClusterSetBound    = "ClusterSetBound"
	ReasonClusterSetNotFound = "ClusterSetNotFound"
)

// Condition types, reasons and messages of a Placement.
const (
	ConditionPlacementMisconfigured = "PlacementMisconfigured"
	ReasonMisconfigured             = "Misconfigured"
	ReasonSucceedConfigured         = "Succeedconfigured"
	MessageSucceedConfigured        = "Placement configurations check pass"

	ConditionPlacementSatisfied        = "PlacementSatisfied"
	ReasonNoManagedClusterSetBindings  = "NoManagedClusterSetBindings"
	MessageNoManagedClusterSetBindings = "No valid ManagedClusterSetBindings found in placement namespace"
	ReasonNoIntersection               = "NoIntersection"
	ReasonAllManagedClusterSetsEmpty   = "AllManagedClusterSetsEmpty"
	ReasonNotAllDecisionsScheduled     = "NotAllDecisionsScheduled"
	ReasonNoManagedClusterMatched      = "NoManagedClusterMatched"
	MessageNoManagedClusterMatched     = "No ManagedCluster matches any of the cluster predicate"
	ReasonAllDecisionsScheduled        = "AllDecisionsScheduled"
	MessageAllDecisionsScheduled       = "All cluster decisions scheduled"
	// MessageCostlyExpression follows one of these. It takes a number of clusters,
	// the first of them, an expression, and what it may cost.
	MessageCostlyExpression = "; on %d clusters, %s the first, the expression %q was given up because it costs more than %d units there, and counts as false: loop over less of the cluster"
)

// The heartbeat.
const (
	// LeaseName is the name of the lease in each cluster's hub namespace, and
	// its holder.
	LeaseName = "managed-cluster-lease"
)

// EventClustersNotSelected is the reason of the event on an object that names a
// placement when the placement's decisions name clusters that get nothing.
const EventClustersNotSelected = "ClustersNotSelected"

// Events that an agent makes on the hub when its cluster's availability
// changes. The formats of the notes take the cluster's name.
const (
	// AgentReportingController is who reports them.
	AgentReportingController = "klusterlet-agent"

	ReasonEventAvailable   = "Available"
	FormatEventAvailable   = "The %s is successfully imported, and it is managed by the hub cluster. Its apieserver is available"
	ReasonEventUnavailable = "Unavailable"
	FormatEventUnavailable = "The %s is successfully imported. However, its Kube API server is unavailable"
)

// Namespaces that cluster sets want in a managed cluster.
const (
	// ManagedNamespaceLabelPrefix is what the label on such a namespace begins
	// with; a hash of the hub's address follows. Its value is "true", and "false"
	// once no set wants the namespace any more.
	ManagedNamespaceLabelPrefix = "clusterset.open-cluster-management.io/"

	ConditionNamespaceAvailable = "NamespaceAvailable"
	ReasonNamespaceApplied      = "NamespaceApplied"
	MessageNamespaceApplied     = "Namespace successfully applied and managed"
	ReasonNamespaceApplyFailed  = "NamespaceApplyFailed"
)

// Certificate requests.
const (
	// ReasonCSRAutoApproved and MessageCSRAutoApproved are in the Approved
	// condition of a request that the hub approved.
	ReasonCSRAutoApproved  = "AutoApprovedByHubCSRApprovingController"
	MessageCSRAutoApproved = "Auto approving Managed cluster agent certificate after SubjectAccessReview."

	// MaxPendingRequests is how many certificate requests an agent may have on
	// the hub, in any state, before it makes no further ones. Upstream's agents
	// count all of their cluster.
	MaxPendingRequests = 10
)

// TerraformOwnerAnnotation on an object of the hub marks the one Terraform
// resource that manages it, with a random text that only that resource's state
// knows. Two states with the same object differ by it. It is
// muster's own; hubs and agents ignore it.
const TerraformOwnerAnnotation = "muster-fleet.io/terraform-owner"

// What admission says when it refuses a write, after the user's name. Clients
// recognise the refusal by these words, as upstream's hubs give no other sign of
// the right that is missing.
const (
	// RefusedAcceptance is for changes of spec.hubAcceptsClient without the verb
	// update on managedclusters/accept.
	RefusedAcceptance = "cannot update the HubAcceptsClient field"
	// RefusedSetMembership precedes the quoted name of a set, for changes of a
	// cluster's set without the verb create on managedclustersets/join.
	RefusedSetMembership = "cannot add/remove a ManagedCluster to/from ManagedClusterSet"
	// RefusedSetBinding precedes the quoted name of a set, for bindings made without
	// the verb create on managedclustersets/bind.
	RefusedSetBinding = "is not allowed to bind cluster set"
	// RefusedUnregistered precedes the quoted name of a cluster, for certificate
	// requests with a token for certain client IDs by which nobody has registered the
	// cluster. An agent that has its name from an earlier token registers then.
	RefusedUnregistered = "has not registered the cluster"
)
