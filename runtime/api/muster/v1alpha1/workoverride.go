package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// WorkOverride says how what a ManifestWorkReplicaSet puts into its clusters differs from
// cluster to cluster. A set of the same namespace names it in the annotation
// muster-fleet.io/override, which may have the spec itself instead, as JSON. For each
// cluster the hub applies the overrides that match it to the set's manifests, in their
// order, and then puts values in place of placeholders. The works that come out are
// ordinary ManifestWorks.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=".metadata.annotations['muster-fleet\\.io/digest']"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkOverride struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what differs.
	// +required
	Spec WorkOverrideSpec `json:"spec"`
}

// WorkOverrideSpec says what differs from cluster to cluster.
type WorkOverrideSpec struct {
	// values are what placeholders stand for. {{REGION}} in a text of a manifest stands
	// for the value named REGION. A text that is nothing but a placeholder becomes a
	// number or a boolean where the value is one. {{CLUSTER_NAME}} stands for the
	// cluster's name and {{CLUSTER_URL}} for the first address of its API server in the
	// ManagedCluster, without being listed here.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	Values []OverrideValue `json:"values,omitempty"`

	// overrides change manifests in the clusters that they match.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Overrides []ManifestOverride `json:"overrides,omitempty"`
}

// OverrideValue is a value with its source. A cluster without it gets no work, and keeps
// the one that it has. The hub's admission checks that it has one source.
type OverrideValue struct {
	// name is what placeholders call the value: upper-case letters, digits and _.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Z0-9_]*$`
	Name string `json:"name"`

	// label takes the value of this label of the ManagedCluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label *string `json:"label,omitempty"`

	// claim takes the value of this claim in the status of the ManagedCluster. Its agent
	// writes claims.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Claim *string `json:"claim,omitempty"`

	// expression is CEL over managedCluster, whose result is a text, a number or a
	// boolean. Of the ManagedCluster it sees the name, labels and annotations, the
	// addresses, the version and the claims.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression *string `json:"expression,omitempty"`

	// default is the value of clusters without the label or the claim.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Default *string `json:"default,omitempty"`
}

// OverridePatch is the kind of a patch.
//
// +kubebuilder:validation:Enum=JSON;Merge;Strategic
type OverridePatch string

// The kinds of patches.
const (
	// PatchJSON is a list of operations, as in RFC 6902.
	PatchJSON OverridePatch = "JSON"
	// PatchMerge is merged into the manifest, as in RFC 7396.
	PatchMerge OverridePatch = "Merge"
	// PatchStrategic is merged as kubectl patch does by default: lists by their keys. It
	// is for Kubernetes' own kinds.
	PatchStrategic OverridePatch = "Strategic"
)

// ManifestOverride changes manifests in some clusters.
type ManifestOverride struct {
	// clusterSelector selects the clusters, as a placement's predicates do; all without
	// it. Its expressions see what those of values see.
	// +optional
	ClusterSelector clusterv1beta1.ClusterSelector `json:"clusterSelector,omitzero"`

	// manifests selects the manifests. It has to match one of the set at least.
	// +required
	Manifests ManifestSelector `json:"manifests"`

	// type is the kind of the patch.
	// +required
	Type OverridePatch `json:"type"`

	// patch is the patch: a list of operations for JSON, an object otherwise.
	// +required
	Patch apiextensionsv1.JSON `json:"patch"`
}

// ManifestSelector matches manifests as they are in the set. A field that is left out
// matches all.
type ManifestSelector struct {
	// group is the API group of the manifest's kind; "" matches the core group alone.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group *string `json:"group,omitempty"`

	// kind is the manifest's kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// namespace is the namespace in its metadata.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace *string `json:"namespace,omitempty"`

	// name is the name in its metadata.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name *string `json:"name,omitempty"`
}

// WorkOverrideList is a list of overrides.
//
// +kubebuilder:object:root=true
type WorkOverrideList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []WorkOverride `json:"items"`
}
