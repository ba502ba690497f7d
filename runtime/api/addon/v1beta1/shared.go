package v1beta1

import (
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Everything that has the same shape in both versions is declared once, in
// v1alpha1, and known here under the same name.
type (
	// AddOnMeta describes an add-on to people.
	AddOnMeta = v1alpha1.AddOnMeta

	// ConfigGroupResource names a kind of configuration object.
	ConfigGroupResource = v1alpha1.ConfigGroupResource

	// ConfigReferent names one configuration object of a known kind.
	ConfigReferent = v1alpha1.ConfigReferent

	// ConfigSpecHash names a configuration object together with a fingerprint of
	// its content.
	ConfigSpecHash = v1alpha1.ConfigSpecHash

	// AddOnConfig names a configuration object and its kind.
	AddOnConfig = v1alpha1.AddOnConfig

	// InstallStrategy says in which clusters an add-on is installed.
	InstallStrategy = v1alpha1.InstallStrategy

	// PlacementRef names a placement.
	PlacementRef = v1alpha1.PlacementRef

	// PlacementStrategy installs an add-on in the clusters of one placement.
	PlacementStrategy = v1alpha1.PlacementStrategy

	// DefaultConfigReference is a default configuration as it is at present.
	DefaultConfigReference = v1alpha1.DefaultConfigReference

	// InstallProgression says how far configuration has spread in one placement.
	InstallProgression = v1alpha1.InstallProgression

	// InstallConfigReference follows one configuration of a placement.
	InstallConfigReference = v1alpha1.InstallConfigReference

	// ObjectReference names an object.
	ObjectReference = v1alpha1.ObjectReference

	// HealthCheck says how an add-on's health is found out.
	HealthCheck = v1alpha1.HealthCheck

	// HealthCheckMode is a way to find out an add-on's health.
	HealthCheckMode = v1alpha1.HealthCheckMode

	// AddOnTemplateSpec is an add-on without code. The types of its registrations
	// begin in upper case, as in v1alpha1.
	AddOnTemplateSpec = v1alpha1.AddOnTemplateSpec

	// AddOnDeploymentConfigSpec adapts the deployment of add-on agents.
	AddOnDeploymentConfigSpec = v1alpha1.AddOnDeploymentConfigSpec

	// CustomizedVariable is a value for a placeholder.
	CustomizedVariable = v1alpha1.CustomizedVariable

	// NodePlacement says on which nodes pods run.
	NodePlacement = v1alpha1.NodePlacement

	// ImageMirror replaces one registry by another.
	ImageMirror = v1alpha1.ImageMirror

	// ProxyConfig is the way out of a cluster.
	ProxyConfig = v1alpha1.ProxyConfig

	// ContainerResourceRequirements sets the resources of containers.
	ContainerResourceRequirements = v1alpha1.ContainerResourceRequirements
)

const (
	// InstallStrategyManual installs the add-on where a user creates a
	// ManagedClusterAddOn. It is the default.
	InstallStrategyManual = v1alpha1.InstallStrategyManual

	// InstallStrategyPlacements installs where placements select.
	InstallStrategyPlacements = v1alpha1.InstallStrategyPlacements

	// HealthCheckModeLease looks at the add-on's lease. It is the default.
	HealthCheckModeLease = v1alpha1.HealthCheckModeLease

	// HealthCheckModeCustomized leaves the condition Available to another controller.
	HealthCheckModeCustomized = v1alpha1.HealthCheckModeCustomized
)
