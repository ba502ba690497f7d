// Package addon holds what the versions of the group
// addon.open-cluster-management.io have in common: the annotations, condition
// types, reasons and reserved names of the wire.
package addon

// GroupName is the API group of add-ons.
const GroupName = "addon.open-cluster-management.io"

// Annotations.
const (
	// InstallNamespaceAnnotation carries v1alpha1's spec.installNamespace in
	// v1beta1, which has no such field.
	InstallNamespaceAnnotation = "addon.open-cluster-management.io/v1alpha1-install-namespace"
	// OlderFieldsAnnotation carries, in v1beta1 and as JSON, what only v1alpha1 has
	// fields for, so that a client of v1beta1 loses none of it. It is absent where
	// there is nothing to carry, and never stored. It is muster's own; upstream
	// drops these fields.
	OlderFieldsAnnotation = "muster-fleet.io/v1alpha1-fields"
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

// DefaultInstallNamespace is where an add-on's agent lives when nothing else is
// said.
const DefaultInstallNamespace = "open-cluster-management-agent-addon"

// Condition types of a ManagedClusterAddOn.
const (
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
)

// Reasons of the Available condition that follow from an add-on's lease.
const (
	ReasonLeaseUpdateStopped = "ManagedClusterAddOnLeaseUpdateStopped"
)
