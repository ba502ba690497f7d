package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddOnDeploymentConfig adapts the deployment of add-on agents: values for
// placeholders, nodes, image registries, proxy, namespace and resources. It takes
// effect where a ClusterManagementAddOn or ManagedClusterAddOn refers to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Namespaced
type AddOnDeploymentConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the adaptations.
	// +required
	Spec AddOnDeploymentConfigSpec `json:"spec"`
}

// AddOnDeploymentConfigSpec adapts the deployment of add-on agents.
type AddOnDeploymentConfigSpec struct {
	// customizedVariables are values for placeholders of the form {{NAME}} in the
	// add-on's manifests.
	// +optional
	// +listType=map
	// +listMapKey=name
	CustomizedVariables []CustomizedVariable `json:"customizedVariables,omitempty"`

	// nodePlacement says on which nodes the agent's pods run.
	// +optional
	NodePlacement *NodePlacement `json:"nodePlacement,omitempty"`

	// registries replace the registries of the agent's images. If several entries
	// fit an image, the last one counts. They go before the registries that the
	// ManagedCluster names in its annotation.
	// +optional
	Registries []ImageMirror `json:"registries,omitempty"`

	// proxyConfig is the way out of the cluster for the agent.
	// +optional
	ProxyConfig ProxyConfig `json:"proxyConfig,omitzero"`

	// agentInstallNamespace is the namespace in the managed cluster for the agent.
	// Left out, it is open-cluster-management-agent-addon; set to the empty text,
	// the manifests keep the namespaces that they have.
	// +optional
	// +kubebuilder:default=open-cluster-management-agent-addon
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	AgentInstallNamespace *string `json:"agentInstallNamespace,omitempty"`

	// resourceRequirements set CPU and memory of the agent's containers. If several
	// entries fit a container, the last one counts.
	// +optional
	// +listType=map
	// +listMapKey=containerID
	ResourceRequirements []ContainerResourceRequirements `json:"resourceRequirements,omitempty"`
}

// CustomizedVariable is a value for a placeholder.
type CustomizedVariable struct {
	// name of the placeholder.
	// +required
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][_a-zA-Z0-9]*$`
	Name string `json:"name"`

	// value to put in its place. A value that can stand in a JSON text is read like
	// one, so \n ends a line. Others go in as they are; on an upstream hub quote in
	// them what JSON would quote.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// NodePlacement says on which nodes pods run.
type NodePlacement struct {
	// nodeSelector are labels that the nodes have to carry.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations excuse taints of nodes. Set nodeSelector too: on an upstream hub
	// tolerations without it have no effect.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// ImageMirror replaces one registry by another.
type ImageMirror struct {
	// mirror is the registry, or registry and path, to use.
	// +required
	Mirror string `json:"mirror"`

	// source is the beginning of the image names to replace. Left out, every image
	// is taken from the mirror, by the last part of its name.
	// +optional
	Source string `json:"source,omitempty"`
}

// ProxyConfig is the way out of a cluster. Each part becomes an environment
// variable of the agent's containers.
type ProxyConfig struct {
	// httpProxy is the proxy for http.
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`

	// httpsProxy is the proxy for https.
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`

	// caBundle holds the PEM certificates of the authorities that vouch for the
	// proxy, base64 encoded.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`

	// noProxy lists, separated by commas, what is reached without the proxy. The
	// hub's API usually belongs here.
	// +optional
	NoProxy string `json:"noProxy,omitempty"`
}

// ContainerResourceRequirements sets the resources of containers.
type ContainerResourceRequirements struct {
	// containerID says which containers, as kind:name:container with the plural
	// name of the kind; * stands for any in each of the three parts. Example:
	// deployments:my-agent:*.
	// +required
	// +kubebuilder:validation:Pattern=`^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):.+:.+$`
	ContainerID string `json:"containerID"`

	// resources are the requests and limits to set.
	// +required
	Resources corev1.ResourceRequirements `json:"resources"`
}

// AddOnDeploymentConfigList is a list of deployment configurations.
//
// +kubebuilder:object:root=true
type AddOnDeploymentConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the configurations.
	Items []AddOnDeploymentConfig `json:"items"`
}
