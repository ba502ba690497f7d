// Package addon holds what the versions of the group
// addon.open-cluster-management.io have in common: the annotations, condition
// types, reasons and reserved names of the wire.
package addon

import "strings"

// GroupName is the API group of add-ons.
const GroupName = "addon.open-cluster-management.io"

// Annotations.
const (
	// AnnotationPrefix begins the annotations of a ManagedCluster that its add-ons
	// get, too. It has no slash at its end, as upstream.
	AnnotationPrefix = "addon.open-cluster-management.io"
	// LifecycleAnnotation on a ClusterManagementAddOn says who manages the add-on:
	// the hub when it is absent or LifecycleAddOnManager, and otherwise a manager of
	// its own.
	LifecycleAnnotation = "addon.open-cluster-management.io/lifecycle"
	// LifecycleAddOnManager is the lifecycle of an add-on that the hub manages.
	LifecycleAddOnManager = "addon-manager"
	// LifecycleSelf is the lifecycle of an add-on that manages itself.
	LifecycleSelf = "self"
	// HostingClusterAnnotation on a ManagedClusterAddOn names the managed cluster
	// that the add-on's agent runs in, when it is not the add-on's own.
	HostingClusterAnnotation = "addon.open-cluster-management.io/hosting-cluster-name"
	// InstallNamespaceAnnotation carries v1alpha1's spec.installNamespace in
	// v1beta1, which has no such field.
	InstallNamespaceAnnotation = "addon.open-cluster-management.io/v1alpha1-install-namespace"
	// PreDeleteAnnotation on a Job or Pod among an add-on's manifests has it run when
	// the add-on is deleted, and not before. Its value does not matter. A label of
	// this key does the same, and a finalizer of this name keeps the
	// ManagedClusterAddOn until the work with these manifests is done.
	PreDeleteAnnotation = "addon.open-cluster-management.io/addon-pre-delete"
	// DeletionOrphanAnnotation on one of an add-on's manifests leaves the object in the
	// cluster when the add-on is deleted. Its value does not matter.
	DeletionOrphanAnnotation = "addon.open-cluster-management.io/deletion-orphan"
	// LocationAnnotation on one of the manifests of a hosted add-on says which cluster
	// it is for: LocationManaged when it is absent. A label of this key does the same.
	LocationAnnotation = "addon.open-cluster-management.io/hosted-manifest-location"
	// PreDeleteManifestsAnnotation on a work of an add-on has, as JSON, the manifests
	// that are to run before the add-on is deleted, as they belong to what the work
	// holds. The template may be gone by then. It is muster's own.
	PreDeleteManifestsAnnotation = "muster-fleet.io/pre-delete-manifests"
	// OlderFieldsAnnotation carries, in v1beta1 and as JSON, what only v1alpha1 has
	// fields for, so that a client of v1beta1 loses none of it. It is absent where
	// there is nothing to carry, and never stored. It is muster's own; upstream
	// drops these fields.
	OlderFieldsAnnotation = "muster-fleet.io/v1alpha1-fields"
)

// Labels of the works of add-ons, beside the add-on's name.
const (
	// AddOnNamespaceLabel is on works in the namespace of a hosting cluster: the
	// namespace of the ManagedClusterAddOn that they belong to.
	AddOnNamespaceLabel = "open-cluster-management.io/addon-namespace"
)

// Where a manifest of a hosted add-on is for.
const (
	LocationManaged = "managed"
	LocationHosting = "hosting"
	LocationNone    = "none"
)

// Finalizers of a ManagedClusterAddOn.
const (
	// PreDeleteFinalizer waits for the work that runs in the managed cluster before
	// the add-on is deleted, HostingPreDeleteFinalizer for the one in the hosting
	// cluster.
	PreDeleteFinalizer        = PreDeleteAnnotation
	HostingPreDeleteFinalizer = "addon.open-cluster-management.io/hosting-addon-pre-delete"
	// HostingManifestsFinalizer waits until the works in the hosting cluster are
	// deleted.
	HostingManifestsFinalizer = "addon.open-cluster-management.io/hosting-manifests-cleanup"
)

// DeprecatedFinalizers are those that earlier managers of add-ons have used.
func DeprecatedFinalizers() []string {
	return []string{
		"cluster.open-cluster-management.io/addon-pre-delete",
		"cluster.open-cluster-management.io/hosting-addon-pre-delete",
		"cluster.open-cluster-management.io/hosting-manifests-cleanup",
	}
}

// DeployWorkName begins the names of the works of an add-on; an index follows.
func DeployWorkName(addOn string) string { return "addon-" + addOn + "-deploy" }

// HostingDeployWorkName begins the names of the works of an add-on in the namespace
// of its hosting cluster; namespace is that of the ManagedClusterAddOn.
func HostingDeployWorkName(addOn, namespace string) string {
	return DeployWorkName(addOn) + "-hosting-" + namespace
}

// HostingPreDeleteWorkName is the name of the work in the hosting cluster's namespace
// that runs when the add-on is deleted.
func HostingPreDeleteWorkName(addOn, namespace string) string {
	return PreDeleteWorkName(addOn) + "-hosting-" + namespace
}

// PreDeleteWorkName begins the names of the works of an add-on that run when it is
// deleted.
func PreDeleteWorkName(addOn string) string { return "addon-" + addOn + "-pre-delete" }

// Kinds of configuration of add-ons from templates, by their plural names.
const (
	TemplateResource         = "addontemplates"
	DeploymentConfigResource = "addondeploymentconfigs"
)

// ReservedNoDefault is the name in v1beta1's default configurations that says
// a kind of configuration is supported but has no default.
const ReservedNoDefault = "__reserved_no_default__"

// KubeClientSigner is the signer of v1alpha1's registrations for the hub's API;
// others have other signers.
const KubeClientSigner = "kubernetes.io/kube-apiserver-client"

// ConversionService is the name, in the hub's namespace, of the service that the
// definitions of add-ons name as their conversion webhook. No such Service
// exists: the hub's API server knows the name and converts by itself.
const ConversionService = "muster-addon-conversion"

// Who acts for add-ons from templates: with upstream a process of its own, and on this
// hub the controllers, which act as its service account where templates name roles and
// Secrets.
const (
	// ManagerServiceAccount is the service account, in the hub's namespace, to which
	// administrators grant what templates may give away.
	ManagerServiceAccount = "addon-manager-controller-sa"
	// ManagerUser is the user name of that service account.
	ManagerUser = "system:serviceaccount:open-cluster-management-hub:" + ManagerServiceAccount
	// AggregateToManagerLabel, with the value "true", is on cluster roles whose rights
	// the service account has, too.
	AggregateToManagerLabel = "open-cluster-management.io/aggregate-to-addon-manager"
	// ManagerGroup is the group that the controllers have in addition: they may write
	// role bindings. It is not the service account that may, whose token somebody may
	// hold.
	ManagerGroup = "system:muster-fleet:addon-manager"
	// ManagerUsualGroup may do what upstream's add-on manager may do by itself.
	ManagerUsualGroup = ManagerGroup + ":usual"
)

// TemplateLabel is on the role bindings of add-ons from templates. Its value is empty,
// as upstream's.
const TemplateLabel = "open-cluster-management.io/addon-template-name"

// Labels of the objects by which an add-on's agent gets tokens for the hub.
const (
	TokenAddOnLabel          = "addon.open-cluster-management.io/name"
	TokenInfrastructureLabel = "addon.open-cluster-management.io/token-infrastructure"
)

// PermissionBindingName is the name of the role binding by which the agent of an
// add-on from a template gets a role of a kind.
func PermissionBindingName(addOn, kind string) string {
	return "open-cluster-management:" + addOn + ":" + strings.ToLower(kind) + ":agent"
}

// DefaultInstallNamespace is where an add-on's agent lives when nothing else is
// said.
const DefaultInstallNamespace = "open-cluster-management-agent-addon"

// Condition types of a ManagedClusterAddOn.
const (
	ConditionAvailable              = "Available"
	ConditionProgressing            = "Progressing"
	ConditionConfigured             = "Configured"
	ConditionManifestApplied        = "ManifestApplied"
	ConditionHostingManifestApplied = "HostingManifestApplied"
	ConditionHookManifestCompleted  = "HookManifestCompleted"
	ConditionHostingClusterValidity = "HostingClusterValidity"
)

// Reasons of the Progressing condition.
const (
	ReasonProgressing                      = "Progressing"
	ReasonCompleted                        = "Completed"
	ReasonFailed                           = "Failed"
	ReasonConfigurationUnsupported         = "ConfigurationUnsupported"
	ReasonWaitingForManifestApplied        = "WaitingForManifestApplied"
	ReasonWaitingForHostingManifestApplied = "WaitingForHostingManifestApplied"
)

// Messages of the Progressing condition of a ManagedClusterAddOn.
const (
	MessageNoWorks                          = "progressing... no addon works"
	MessageConfigsMismatch                  = "progressing... mca and work configs mismatch"
	MessageWorkNotReady                     = "progressing... work is not ready"
	MessageCompleted                        = "completed with no errors."
	MessageWaitingForManifestApplied        = "Waiting for ManagedClusterAddOn ManifestApplied condition"
	MessageWaitingForHostingManifestApplied = "Waiting for ManagedClusterAddOn HostingManifestApplied condition"
)

// Reasons of the conditions ManifestApplied and HostingManifestApplied, and messages.
const (
	ReasonManifestsApplied     = "AddonManifestApplied"
	ReasonManifestsFailed      = "AddonManifestAppliedFailed"
	ReasonManifestWorkFailed   = "ManifestWorkApplyFailed"
	MessageManifestsApplied    = "manifests of addon are applied successfully"
	MessageManifestsFailed     = "failed to apply the manifests of addon"
	MessageRenderFailed        = "failed to get manifest from agent interface: "
	MessageBuildWorkFailed     = "failed to build manifestwork: "
	MessageApplyWorkFailed     = "failed to apply manifestWork: "
	ReasonHookCompleted        = "HookManifestIsCompleted"
	ReasonHookNotCompleted     = "HookManifestIsNotCompleted"
	ReasonHostingClusterValid  = "HostingClusterValid"
	ReasonHostingClusterNotOne = "HostingClusterInvalid"
)

// MessageNoManifest is of the ManifestApplied condition when the add-on's manager
// has nothing to deploy in the cluster.
const MessageNoManifest = "no manifest need to apply"

// Reasons of the Configured condition, and their messages.
const (
	ReasonConfigurationsConfigured     = "ConfigurationsConfigured"
	ReasonConfigurationsNotConfigured  = "ConfigurationsNotConfigured"
	MessageConfigurationsConfigured    = "Configurations configured"
	MessageConfigurationsNotConfigured = "Configurations updated and not configured yet"
)

// Reasons of the Available condition that follow from an add-on's works and what they
// report, and messages.
const (
	ReasonWorkNotFound     = "WorkNotFound"
	ReasonWorkNotApplied   = "WorkNotApplied"
	ReasonNoProbeResult    = "NoProbeResult"
	ReasonProbeUnavailable = "ProbeUnavailable"
	ReasonProbeAvailable   = "ProbeAvailable"
	MessageWorkNotFound    = "Addon manifestWork is not found"
	MessageWorkNotApplied  = "Addon manifestWork is not applied yet"
	MessageNoProbeResult   = "Probe results are not returned"
)

// Reasons of the Available condition that follow from an add-on's lease.
const (
	ReasonLeaseUpdateStopped = "ManagedClusterAddOnLeaseUpdateStopped"
)

// Names of what the works of an add-on from a template report of its workloads, beside
// the well-known fields. They begin with a prefix, so that they are none of the
// template's own.
const (
	FeedbackPrefix     = "rollout."
	FeedbackGeneration = FeedbackPrefix + "generation"
	FeedbackObserved   = FeedbackPrefix + "observedGeneration"
	FeedbackWant       = FeedbackPrefix + "replicas"
	FeedbackUpdated    = FeedbackPrefix + "updated"
	FeedbackReady      = FeedbackPrefix + "ready"
	FeedbackStrategy   = FeedbackPrefix + "strategy"
	FeedbackPartition  = FeedbackPrefix + "partition"
	FeedbackGaveUp     = FeedbackPrefix + "gaveUp"
	FeedbackNoPods     = FeedbackPrefix + "noPods"
)
