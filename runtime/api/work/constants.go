// Package work holds what the versions of the group
// work.open-cluster-management.io have in common: the labels, annotations,
// finalizers, condition types, reasons and messages of the wire, and the names
// that are derived from a hub and a work.
package work

import (
	"crypto/sha256"
	"encoding/hex"
)

// GroupName is the API group of manifest works.
const GroupName = "work.open-cluster-management.io"

// Finalizers.
const (
	// ManifestWorkFinalizer keeps a deleted ManifestWork until its objects are
	// gone from the managed cluster. The agent adds it.
	ManifestWorkFinalizer = "cluster.open-cluster-management.io/manifest-work-cleanup"
	// AppliedManifestWorkFinalizer keeps a deleted AppliedManifestWork until the
	// objects that it owns are gone.
	AppliedManifestWorkFinalizer = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"
	// ReplicaSetFinalizer keeps a deleted ManifestWorkReplicaSet until its works
	// are gone.
	ReplicaSetFinalizer = "work.open-cluster-management.io/manifest-work-cleanup"
)

// Labels and annotations.
const (
	// AggregateToWorkLabel with the value "true" is on the ClusterRoles of a
	// managed cluster that say what works may do there.
	AggregateToWorkLabel = "open-cluster-management.io/aggregate-to-work"
	// ReplicaSetLabel on a ManifestWork names the replica set that made it, as
	// namespace.name.
	ReplicaSetLabel = "work.open-cluster-management.io/manifestworkreplicaset"
	// PlacementNameLabel on such a work names the placement that chose its cluster.
	PlacementNameLabel = "work.open-cluster-management.io/placementname"
	// SpecHashAnnotation on an applied object holds the hash of what was applied,
	// where fields are ignored.
	SpecHashAnnotation = "open-cluster-management.io/config-spec-hash"
	// ServiceSpecHashAnnotation on an applied Service holds the hash of the spec
	// that was applied.
	ServiceSpecHashAnnotation = "operator.openshift.io/spec-hash"
	// WriteOnlyAnnotation on a ManifestWork lists, as JSON, the manifests whose
	// content the author of the work does not want to read back, each as
	// "apiVersion/Kind namespace/name". It is muster's own.
	WriteOnlyAnnotation = "muster-fleet.io/write-only-manifests"
	// ReplayAnnotation on a ManifestWork asks the agent to forget what it knows of
	// the work's objects and to apply all manifests once more. The agent removes the
	// annotation when it has reported on that; another value asks again. It is
	// muster's own: upstream agents leave it.
	ReplayAnnotation = "muster-fleet.io/replay"
	// TraceparentAnnotation on a ManifestWork is the span in which Terraform has written
	// it, as in W3C's header traceparent, so that the agent's spans are in the same
	// trace. It is muster's own.
	TraceparentAnnotation = "muster-fleet.io/traceparent"
)

// Condition types.
const (
	ConditionApplied              = "Applied"
	ConditionAvailable            = "Available"
	ConditionProgressing          = "Progressing"
	ConditionDegraded             = "Degraded"
	ConditionComplete             = "Complete"
	ConditionDeleting             = "Deleting"
	ConditionStatusFeedbackSynced = "StatusFeedbackSynced"
)

// Reasons and messages.
const (
	ReasonManifestApplied     = "AppliedManifestComplete"
	MessageManifestApplied    = "Apply manifest complete"
	ReasonManifestFailed      = "AppliedManifestFailed"
	ReasonIgnoreFieldError    = "AppliedManifestSSAIgnoreFieldError"
	ReasonWorkApplied         = "AppliedManifestWorkComplete"
	MessageWorkApplied        = "Apply manifest work complete"
	ReasonWorkFailed          = "AppliedManifestWorkFailed"
	MessageWorkFailed         = "Failed to apply manifest work"
	ReasonResourceAvailable   = "ResourceAvailable"
	MessageResourceAvailable  = "Resource is available"
	ReasonResourceMissing     = "ResourceNotAvailable"
	MessageResourceMissing    = "Resource is not available"
	ReasonFetchFailed         = "FetchingResourceFailed"
	ReasonIncompleteMeta      = "IncompleteResourceMeta"
	MessageIncompleteMeta     = "Resource meta is incomplete"
	ReasonResourcesAvailable  = "ResourcesAvailable"
	MessageResourcesAvailable = "All resources are available"
	ReasonResourcesMissing    = "ResourcesNotAvailable"
	ReasonResourcesUnknown    = "ResourcesStatusUnknown"
	MessageNoResource         = "cannot get any available resource "
	ReasonNoFeedback          = "NoStatusFeedbackSynced"
	ReasonFeedbackSynced      = "StatusFeedbackSynced"
	ReasonFeedbackFailed      = "StatusFeedbackSyncFailed"
	// ReasonRulePrefix begins the reasons of all conditions that rules yield.
	ReasonRulePrefix          = "ConditionRule"
	ReasonRuleEvaluated       = "ConditionRuleEvaluated"
	ReasonRuleExpressionError = "ConditionRuleExpressionError"
	ReasonRuleInternalError   = "ConditionRuleInternalError"
	ReasonRuleInvalid         = "ConditionRuleInvalid"
	ReasonRulesAggregated     = "ConditionRulesAggregated"
	ReasonDeleting            = "WorkDeleting"
	MessageDeleting           = "ManifestWork is being deleted"
)

// What muster reports beyond upstream.
const (
	// ConditionStatusTruncated is on a work whose status does not fit into the
	// hub's store beside its manifests, so that something is left out.
	ConditionStatusTruncated = "StatusTruncated"
	ReasonStatusTooLarge     = "StatusTooLarge"
	// MessageHiddenComplete is what is left of a rule's message about an object
	// that the work's executor may not get any more.
	MessageHiddenComplete = "Manifest was Complete when the executor could last get it"
	// ConditionContested is True on a manifest whose object somebody else keeps
	// changing back, such as another work or a controller.
	ConditionContested    = "Contested"
	ReasonChangedByOthers = "ChangedByOthers"
	// ConditionPruned is on a work while objects that it no longer holds are
	// still there, held up by something.
	ConditionPruned         = "Pruned"
	ReasonResourcesHeld     = "ResourcesRemaining"
	ReasonWorkloadsMoving   = "WorkloadsProgressing"
	ReasonWorkloadsSettled  = "WorkloadsSettled"
	ReasonWorkloadsDegraded = "WorkloadsDegraded"
	ReasonWorkloadsHealthy  = "WorkloadsHealthy"
)

// Condition types of a replica set.
const (
	ConditionPlacementVerified   = "PlacementVerified"
	ConditionPlacementRolledOut  = "PlacementRolledOut"
	ConditionManifestworkApplied = "ManifestworkApplied"
)

// Reasons of a replica set's conditions.
const (
	ReasonAsExpected                = "AsExpected"
	ReasonNotAsExpected             = "NotAsExpected"
	ReasonProcessing                = "Processing"
	ReasonRolloutProgressing        = "Progressing"
	ReasonRolloutComplete           = "Complete"
	ReasonPlacementDecisionNotFound = "PlacementDecisionNotFound"
	ReasonPlacementDecisionEmpty    = "PlacementDecisionEmpty"
	ReasonInvalidManifestWorkName   = "InvalidManifestWorkName"
)

// Limits and defaults.
const (
	// DefaultManifestLimit is the greatest total size of a work's manifests, in
	// bytes.
	DefaultManifestLimit = 500 * 1024
	// MaxStoredSize is how large a work may become with its status, in bytes as
	// JSON: etcd takes 1.5 MiB by default, with what the API server adds.
	MaxStoredSize = 1400 << 10
	// StatusEntrySize is about what the status says of a manifest without feedback,
	// in bytes.
	StatusEntrySize = 650
	// AgentServiceAccount is the service account of upstream's work agent. Works
	// without an executor count as executed by it, in no namespace.
	AgentServiceAccount = "klusterlet-work-sa"
	// DefaultFieldManager is what server-side apply runs as when a work names
	// no other.
	DefaultFieldManager = "work-agent"
)

// HubHash identifies a hub by its URL as it stands in the agent's kubeconfig,
// scheme and port included and not normalised: the hexadecimal SHA-256 of it.
func HubHash(host string) string {
	sum := sha256.Sum256([]byte(host))
	return hex.EncodeToString(sum[:])
}

// AppliedManifestWorkName is the name of the AppliedManifestWork that stands in
// the managed cluster for a ManifestWork of a hub.
func AppliedManifestWorkName(hubHash, manifestWork string) string {
	return hubHash + "-" + manifestWork
}

// What admission says when it refuses a write. Clients recognise the refusal by
// these words, as upstream's hubs give no other sign.
const (
	// RefusedExecutor stands between the user's name and the executor's, for works
	// whose author lacks the verb execute-as for the executor.
	RefusedExecutor = "cannot manipulate the Manifestwork with executor"
	// RefusedReplicaSet is for replica sets while the feature gate
	// ManifestWorkReplicaSet is off.
	RefusedReplicaSet = "ManifestWorkReplicaSet feature is disabled"
)
