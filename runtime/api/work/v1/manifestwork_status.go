package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManifestWorkStatus is what the agent reports about a work.
type ManifestWorkStatus struct {
	// conditions of the work as a whole. Applied: the agent wrote all objects.
	// Available: all objects exist in the managed cluster, which says nothing about
	// their health. Deleting: their removal is under way. Progressing, Degraded,
	// Complete and any other come from conditionRules.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// resourceStatus reports on each object.
	// +optional
	ResourceStatus ManifestResourceStatus `json:"resourceStatus,omitzero"`
}

// ManifestResourceStatus reports on the objects of a work.
type ManifestResourceStatus struct {
	// manifests has one entry for each manifest, in the order of the spec.
	// +optional
	Manifests []ManifestCondition `json:"manifests,omitempty"`
}

// ManifestCondition reports on one object.
type ManifestCondition struct {
	// resourceMeta says which object it is.
	// +required
	ResourceMeta ManifestResourceMeta `json:"resourceMeta"`

	// statusFeedback holds the fields that feedbackRules asked for.
	// +optional
	StatusFeedbacks StatusFeedbackResult `json:"statusFeedback,omitzero"`

	// conditions of the object. Applied: the agent wrote it. Available: it exists.
	// StatusFeedbackSynced: the reported fields could be read. Others come from
	// conditionRules. The list has to be there even when it is empty: in Go, set
	// an empty slice and not nil.
	// +required
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`
}

// ManifestResourceMeta says which object of a work is meant.
type ManifestResourceMeta struct {
	// ordinal is the position of the manifest in the spec, from 0.
	// +required
	Ordinal int32 `json:"ordinal"`

	// group is the object's API group, empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`

	// version of the object's API.
	// +optional
	Version string `json:"version,omitempty"`

	// kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// resource is the plural name of the kind; empty when the cluster does not
	// know the kind.
	// +optional
	Resource string `json:"resource,omitempty"`

	// name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// namespace of the object, empty if its kind has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// StatusFeedbackResult holds reported fields.
type StatusFeedbackResult struct {
	// values by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Values []FeedbackValue `json:"values,omitempty"`
}

// FeedbackValue is one reported field.
type FeedbackValue struct {
	// name that the feedback rule gives the field.
	// +required
	Name string `json:"name"`

	// fieldValue is what was found.
	// +required
	Value FieldValue `json:"fieldValue"`
}

// FieldValue is a value with its type; only the field for that type is set.
type FieldValue struct {
	// type says which of the other fields holds the value.
	// +required
	Type ValueType `json:"type"`

	// integer is the value for the type Integer.
	// +optional
	Integer *int64 `json:"integer,omitempty"`

	// string is the value for the type String.
	// +optional
	String *string `json:"string,omitempty"`

	// boolean is the value for the type Boolean.
	// +optional
	Boolean *bool `json:"boolean,omitempty"`

	// jsonRaw is the value for the type JsonRaw: any other value as compact JSON of
	// at most 1024 characters. The agent has to have the feature
	// RawFeedbackJsonString on.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	JSONRaw *string `json:"jsonRaw,omitempty"`
}

// ValueType is the type of a reported value.
//
// +kubebuilder:validation:Enum=Integer;String;Boolean;JsonRaw
type ValueType string

const (
	// ValueTypeInteger is a whole number of 64 bits.
	ValueTypeInteger ValueType = "Integer"

	// ValueTypeString is text.
	ValueTypeString ValueType = "String"

	// ValueTypeBoolean is true or false.
	ValueTypeBoolean ValueType = "Boolean"

	// ValueTypeJSONRaw is anything, as JSON.
	ValueTypeJSONRaw ValueType = "JsonRaw"
)
