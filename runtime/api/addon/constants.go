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

// Reasons of the Available condition that follow from an add-on's lease.
const (
	ReasonLeaseUpdateStopped = "ManagedClusterAddOnLeaseUpdateStopped"
)
