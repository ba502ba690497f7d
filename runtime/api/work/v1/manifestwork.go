package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ManifestWork is a bundle of Kubernetes objects for one managed cluster. Created
// on the hub in the cluster's namespace, it makes the cluster's agent apply the
// objects, keep them as described, report on them, and delete them when the work
// is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type ManifestWork struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what to apply, and how.
	// +optional
	Spec ManifestWorkSpec `json:"spec,omitzero"`

	// status is what the agent reports.
	// +optional
	Status ManifestWorkStatus `json:"status,omitzero"`
}

// ManifestWorkSpec is a bundle of objects and how to treat them.
type ManifestWorkSpec struct {
	// workload holds the objects.
	// +optional
	Workload ManifestsTemplate `json:"workload,omitzero"`

	// deleteOption says what becomes of the applied objects when the work is
	// deleted or finished. Left out, they are deleted with the work.
	// +optional
	DeleteOption *DeleteOption `json:"deleteOption,omitempty"`

	// manifestConfigs treat some of the objects specially: how they are updated,
	// what is reported of them, and which conditions are derived from them. If
	// several entries match an object, each of updateStrategy, feedbackRules and
	// conditionRules comes from the first that has it.
	// +optional
	ManifestConfigs []ManifestConfigOption `json:"manifestConfigs,omitempty"`

	// executor is the identity in the managed cluster that has to be allowed to do
	// what the work asks for. Left out, the agent's own rights decide. Naming an
	// executor needs the permission "execute-as" on the hub.
	// +optional
	Executor *ManifestWorkExecutor `json:"executor,omitempty"`
}

// ManifestsTemplate holds the objects of a work.
type ManifestsTemplate struct {
	// manifests are complete Kubernetes objects, each with apiVersion, kind and
	// metadata.name. They are applied in an order that suits their kinds
	// (namespaces and definitions first), and one that fails does not stop the
	// others. All together may take up to 500 KiB.
	// +optional
	Manifests []Manifest `json:"manifests,omitempty"`
}

// Manifest is one Kubernetes object, of any kind.
type Manifest struct {
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	runtime.RawExtension `json:",inline"`
}

// DeleteOption says what becomes of a work's objects in the end.
type DeleteOption struct {
	// propagationPolicy says what happens to the objects when the work is deleted.
	// Foreground: they are deleted, and the work waits until they are gone.
	// Orphan: they all stay. SelectivelyOrphan: those that selectivelyOrphans
	// names stay. The choice takes effect with the next application of the work,
	// so change it some time before deleting the work.
	// +optional
	// +kubebuilder:default=Foreground
	PropagationPolicy DeletePropagationPolicyType `json:"propagationPolicy,omitempty"`

	// selectivelyOrphans names the objects that stay under SelectivelyOrphan.
	// +optional
	SelectivelyOrphan *SelectivelyOrphan `json:"selectivelyOrphans,omitempty"`

	// ttlSecondsAfterFinished lets the hub delete the work this many seconds after
	// its condition Complete became True; 0 deletes it at once. Left out, a
	// finished work stays. The hub has to have the feature
	// CleanUpCompletedManifestWork on.
	// +optional
	TTLSecondsAfterFinished *int64 `json:"ttlSecondsAfterFinished,omitempty"`
}

// DeletePropagationPolicyType says what happens to applied objects when their work
// is deleted.
//
// +kubebuilder:validation:Enum=Foreground;Orphan;SelectivelyOrphan
type DeletePropagationPolicyType string

const (
	// DeletePropagationPolicyTypeForeground deletes the objects and waits for it.
	DeletePropagationPolicyTypeForeground DeletePropagationPolicyType = "Foreground"

	// DeletePropagationPolicyTypeOrphan leaves the objects in place.
	DeletePropagationPolicyTypeOrphan DeletePropagationPolicyType = "Orphan"

	// DeletePropagationPolicyTypeSelectivelyOrphan leaves the named objects in
	// place and deletes the others.
	DeletePropagationPolicyTypeSelectivelyOrphan DeletePropagationPolicyType = "SelectivelyOrphan"
)

// SelectivelyOrphan names objects that outlive their work.
type SelectivelyOrphan struct {
	// orphaningRules each name one object that stays. Without any, none does.
	// +optional
	OrphaningRules []OrphaningRule `json:"orphaningRules,omitempty"`
}

// OrphaningRule names one object that outlives its work. All four fields have to
// match exactly; there are no wildcards here.
type OrphaningRule struct {
	// group is the object's API group, empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`

	// resource is the plural name of the object's kind, such as deployments.
	// +required
	Resource string `json:"resource"`

	// name of the object.
	// +required
	Name string `json:"name"`

	// namespace of the object, empty if its kind has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ManifestWorkExecutor is who a work acts for in the managed cluster.
type ManifestWorkExecutor struct {
	// subject whose rights are checked before an object is applied.
	// +optional
	Subject ManifestWorkExecutorSubject `json:"subject,omitzero"`
}

// ManifestWorkExecutorSubject is an identity in the managed cluster.
type ManifestWorkExecutorSubject struct {
	// type of the identity. ServiceAccount is the only one.
	// +required
	Type ManifestWorkExecutorSubjectType `json:"type"`

	// serviceAccount is the identity.
	// +optional
	ServiceAccount *ManifestWorkSubjectServiceAccount `json:"serviceAccount,omitempty"`
}

// ManifestWorkExecutorSubjectType is a kind of identity.
//
// +kubebuilder:validation:Enum=ServiceAccount
type ManifestWorkExecutorSubjectType string

// ExecutorSubjectTypeServiceAccount is the type of service accounts in the managed
// cluster.
const ExecutorSubjectTypeServiceAccount ManifestWorkExecutorSubjectType = "ServiceAccount"

// ManifestWorkSubjectServiceAccount names a service account in the managed cluster.
type ManifestWorkSubjectServiceAccount struct {
	// namespace of the service account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$`
	Namespace string `json:"namespace"`

	// name of the service account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$`
	Name string `json:"name"`
}

// ManifestWorkList is a list of works.
//
// +kubebuilder:object:root=true
type ManifestWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the works.
	Items []ManifestWork `json:"items"`
}
