package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddOnTemplate is an add-on without code: the manifests of its agent and the
// credentials and rights that the agent needs on the hub. A
// ClusterManagementAddOn uses it by naming it as a configuration of the kind
// addontemplates.
//
// The manifests may contain {{CLUSTER_NAME}}, {{INSTALL_NAMESPACE}},
// {{HUB_KUBECONFIG}} and the variables of an AddOnDeploymentConfig.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="ADDON NAME",type=string,JSONPath=`.spec.addonName`
type AddOnTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the add-on.
	// +required
	Spec AddOnTemplateSpec `json:"spec"`
}

// AddOnTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type AddOnTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the templates.
	Items []AddOnTemplate `json:"items"`
}
