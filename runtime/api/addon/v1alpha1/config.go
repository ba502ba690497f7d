package v1alpha1

// ConfigGroupResource names a kind of configuration object.
type ConfigGroupResource struct {
	// group is the API group of the configuration, empty for the core group.
	// +optional
	// +kubebuilder:default=""
	Group string `json:"group"`

	// resource is the plural name of the configuration's kind, such as
	// addondeploymentconfigs.
	// +required
	// +kubebuilder:validation:MinLength=1
	Resource string `json:"resource"`
}

// ConfigReferent names one configuration object of a known kind.
type ConfigReferent struct {
	// namespace of the configuration, empty if its kind has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the configuration.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// ConfigSpecHash names a configuration object together with a fingerprint of its
// content.
type ConfigSpecHash struct {
	ConfigReferent `json:",inline"`

	// specHash is the SHA-256, in hexadecimal, of the configuration without its
	// apiVersion, kind, metadata and status. It changes whenever the content does.
	// +optional
	SpecHash string `json:"specHash,omitempty"`
}

// AddOnConfig names a configuration object and its kind.
type AddOnConfig struct {
	ConfigGroupResource `json:",inline"`
	ConfigReferent      `json:",inline"`
}

// ConfigCoordinates points at the configuration of an add-on in a way that has been
// given up; use supportedConfigs and configs.
type ConfigCoordinates struct {
	// crdName is the name of the CustomResourceDefinition of the configuration.
	// +optional
	CRDName string `json:"crdName,omitempty"`

	// crName is the name of the configuration object.
	// +optional
	CRName string `json:"crName,omitempty"`

	// lastObservedGeneration is the generation of the configuration that was last
	// acted on.
	// +optional
	LastObservedGeneration int64 `json:"lastObservedGeneration,omitempty"`
}

// AddOnMeta describes an add-on to people.
type AddOnMeta struct {
	// displayName is the add-on's name for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description says in a sentence or two what the add-on is for.
	// +optional
	Description string `json:"description,omitempty"`
}
