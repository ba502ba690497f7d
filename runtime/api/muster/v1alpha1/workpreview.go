package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// WorkPreview asks the agent of a cluster what a ManifestWork would do there. It is
// in the cluster's namespace on the hub. The agent takes the manifests through dry
// runs, which change nothing in the cluster, and answers in the status. The hub
// deletes a preview some minutes after its creation.
//
// Who creates one needs the rights on the ManifestWork that the work itself would
// need. Its spec can't be changed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Work",type=string,JSONPath=`.spec.workName`
// +kubebuilder:printcolumn:name="Previewed",type=string,JSONPath=`.status.conditions[?(@.type=="Previewed")].status`
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.conditions[?(@.type=="Previewed")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkPreview struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what is previewed.
	// +required
	Spec WorkPreviewSpec `json:"spec"`

	// status is the agent's answer.
	// +optional
	Status WorkPreviewStatus `json:"status,omitzero"`
}

// WorkPreviewSpec says what is previewed. The hub's admission checks that it stays as it
// is.
type WorkPreviewSpec struct {
	// workName is the name of the ManifestWork in the preview's namespace. It need not
	// exist. If it does, its objects that are no longer in the manifests are previewed
	// as well.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	WorkName string `json:"workName"`

	// work is the spec that the ManifestWork would have. Without one, its deletion is
	// previewed.
	// +optional
	Work *workv1.ManifestWorkSpec `json:"work,omitempty"`
}

// PreviewOutcome is what would become of an object.
//
// +kubebuilder:validation:Enum=Create;Change;Recreate;Unchanged;Delete;Release;Conflict;Refused;Unknown
type PreviewOutcome string

// What would become of an object.
const (
	// PreviewCreate is an object that would be created.
	PreviewCreate PreviewOutcome = "Create"
	// PreviewChange is one whose fields would be changed.
	PreviewChange PreviewOutcome = "Change"
	// PreviewRecreate is one that would be deleted and created again, as it can't be
	// changed.
	PreviewRecreate PreviewOutcome = "Recreate"
	// PreviewUnchanged is one that would stay as it is.
	PreviewUnchanged PreviewOutcome = "Unchanged"
	// PreviewDelete is one that would be deleted, as the work would no longer hold it.
	PreviewDelete PreviewOutcome = "Delete"
	// PreviewRelease is one that the work would no longer hold, and that would stay.
	PreviewRelease PreviewOutcome = "Release"
	// PreviewConflict is one of whose fields others are the managers.
	PreviewConflict PreviewOutcome = "Conflict"
	// PreviewRefused is one that could not be applied: the message says who refuses it.
	PreviewRefused PreviewOutcome = "Refused"
	// PreviewUnknown is one whose outcome the cluster does not say.
	PreviewUnknown PreviewOutcome = "Unknown"
)

// WorkPreviewStatus is what the work would do.
type WorkPreviewStatus struct {
	// conditions: Previewed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// objects are what would become of each object: those of the manifests in their
	// order, then those that the work would no longer hold.
	// +optional
	// +kubebuilder:validation:MaxItems=2000
	// +listType=atomic
	Objects []ObjectPreview `json:"objects,omitempty"`

	// moreObjects is how many further objects there are, for which there is no room.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MoreObjects int32 `json:"moreObjects,omitempty"`
}

// ObjectPreview is what would become of an object in the cluster.
type ObjectPreview struct {
	// resourceMeta is the object. Of one that the work would no longer hold, the
	// ordinal is -1.
	// +required
	ResourceMeta workv1.ManifestResourceMeta `json:"resourceMeta"`

	// outcome is what would become of it.
	// +required
	Outcome PreviewOutcome `json:"outcome"`

	// message says why, or what else is to be known.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// changes are the fields that would change.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Changes []FieldChange `json:"changes,omitempty"`

	// moreChanges is how many further fields would change, for which there is no room.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MoreChanges int32 `json:"moreChanges,omitempty"`
}

// FieldChange is one field that would change. Values are JSON, cut where they are
// long, and masked where they are secret.
type FieldChange struct {
	// path is the field, such as spec.template.spec.containers[0].image.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`

	// from is its value in the cluster; left out where it has none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	From string `json:"from,omitempty"`

	// to is the value that it would have; left out where it would have none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	To string `json:"to,omitempty"`
}

// WorkPreviewList is a list of previews.
//
// +kubebuilder:object:root=true
type WorkPreviewList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []WorkPreview `json:"items"`
}
