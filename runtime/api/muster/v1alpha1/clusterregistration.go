package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRegistration is how an agent that knows its client ID, and not its
// cluster's name, asks the hub under which name it is to register. The agent
// creates it with its bootstrap token. The hub finds the ManagedCluster of the
// client ID or creates one, and deletes the registration when it is of no use any
// more.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Client ID",type=string,JSONPath=`.spec.clientID`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.clusterName`
// +kubebuilder:printcolumn:name="Registered",type=string,JSONPath=`.status.conditions[?(@.type=="Registered")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Registered")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterRegistration struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is who wants to register.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a cluster registration can't be changed; create another one"
	Spec ClusterRegistrationSpec `json:"spec"`

	// status is the answer.
	// +optional
	Status ClusterRegistrationStatus `json:"status,omitzero"`
}

// ClusterRegistrationSpec is who wants to register.
type ClusterRegistrationSpec struct {
	// clientID is a name that the cluster keeps for all of its life.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClientID string `json:"clientID"`

	// clusterUID is the UID of the cluster's namespace kube-system, which tells
	// two clusters with one client ID apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID"`

	// labels are what the agent would like the new ManagedCluster to have. The
	// token says which of them are taken.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// token is the bootstrap token by which it was created, without its secret
	// half. The hub sets it, whatever the client says.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Token string `json:"token,omitempty"`
}

// ClusterRegistrationStatus is the answer to a registration.
type ClusterRegistrationStatus struct {
	// clusterName is the ManagedCluster under whose name the agent is to ask for
	// its certificate.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// conditions: Registered.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterRegistrationList is a list of cluster registrations.
//
// +kubebuilder:object:root=true
type ClusterRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []ClusterRegistration `json:"items"`
}

// ClusterImport lets the hub install the agent in a cluster, through a kubeconfig
// of that cluster. It has the name of its ManagedCluster, which the hub creates if
// there is none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Installed",type=string,JSONPath=`.status.conditions[?(@.type=="AgentInstalled")].status`
// +kubebuilder:printcolumn:name="Joined",type=string,JSONPath=`.status.conditions[?(@.type=="Joined")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterImport struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says how to reach the cluster, and what to install.
	// +required
	Spec ClusterImportSpec `json:"spec"`

	// status is what has become of it.
	// +optional
	Status ClusterImportStatus `json:"status,omitzero"`
}

// ClusterImportSpec says how to reach a cluster, and what to install.
type ClusterImportSpec struct {
	// kubeconfigSecret is the Secret in the namespace muster-imports with the
	// kubeconfig, under the key kubeconfig.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	KubeconfigSecret string `json:"kubeconfigSecret"`

	// forgetAfterJoin deletes the Secret once the cluster has joined: true by
	// default. While the Secret is there, the hub repairs the agent.
	// +optional
	// +kubebuilder:default=true
	ForgetAfterJoin *bool `json:"forgetAfterJoin,omitempty"`

	// endpoint is where agents find the hub; what the hub publishes by default.
	// +optional
	Endpoint HubEndpoint `json:"endpoint,omitzero"`

	// agent says how the agent runs.
	// +optional
	Agent AgentOptions `json:"agent,omitzero"`

	// labels are put on the ManagedCluster when the hub creates it.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// clusterSet is the set of the ManagedCluster when the hub creates it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterSet string `json:"clusterSet,omitempty"`

	// accept has the hub accept the cluster. Who sets it needs the right to
	// accept clusters.
	// +optional
	Accept bool `json:"accept,omitempty"`

	// redeploy has the agent installed once more when it is raised.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Redeploy int64 `json:"redeploy,omitempty"`

	// clusterUID is the UID of the cluster's namespace kube-system. Another
	// cluster behind the kubeconfig is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`

	// clusterAuthority is who vouches for the cluster's API server: sha256: and the
	// hash of the key of its certificate authority, or dns: and its name where a
	// public authority vouches. The one of the first import counts when it is empty.
	// Another server behind the kubeconfig gets nothing, not even the credentials.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	ClusterAuthority string `json:"clusterAuthority,omitempty"`

	// rejoin lets the cluster join again, once, when it is raised: after its agent
	// has lost its identity. Who raises it needs the right to create Secrets in
	// kube-system, as for "muster rejoin".
	// +optional
	// +kubebuilder:validation:Minimum=0
	Rejoin int64 `json:"rejoin,omitempty"`

	// publishServer puts the server and the authority of the kubeconfig into
	// spec.managedClusterClientConfigs of the ManagedCluster, where users of the
	// cluster find its API server.
	// +optional
	PublishServer bool `json:"publishServer,omitempty"`
}

// HubEndpoint is where agents find a hub.
type HubEndpoint struct {
	// server is the hub's URL.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Server string `json:"server,omitempty"`

	// caBundle verifies its certificate, in PEM.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`

	// proxyURL is the proxy on the way to the hub.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	ProxyURL string `json:"proxyURL,omitempty"`

	// trust is Bundle, for caBundle or the hub's own CA, or System for the
	// authorities of the agent's system.
	// +optional
	// +kubebuilder:default=Bundle
	// +kubebuilder:validation:Enum=Bundle;System
	Trust HubTrust `json:"trust,omitempty"`
}

// HubTrust says by what an agent verifies its hub.
type HubTrust string

// By what an agent verifies its hub.
const (
	TrustBundle HubTrust = "Bundle"
	TrustSystem HubTrust = "System"
)

// AgentOptions say how the agent runs in its cluster.
type AgentOptions struct {
	// image is the agent's image; the one of the hub's version by default.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// imagePullPolicy is Kubernetes' default when it is empty.
	// +optional
	// +kubebuilder:validation:Enum="";Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are Secrets in the agent's namespace.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// namespace is where the agent runs; open-cluster-management-agent by
	// default.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// labels are put on every object of the agent.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are put on the agent's pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// env are further environment variables of the agent, such as HTTPS_PROXY.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	Env []EnvVar `json:"env,omitempty"`

	// args are further arguments of the agent.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// tolerations are added to the pods' own.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// nodeSelector limits the nodes.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity limits or prefers nodes.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// resources of the agent's container; the agent's own by default.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// hostNetwork runs the agent in the node's network, for clusters whose own
	// network an add-on brings.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`

	// priorityClassName is the pods' priority.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// userAccess lets users of the hub have access to the cluster through
	// logical clouds. It gives the agent the right to approve client
	// certificates of the cluster.
	// +optional
	UserAccess bool `json:"userAccess,omitempty"`

	// tunnels takes users with access to the cluster's API server through the hub,
	// where they can't reach it otherwise. It needs userAccess.
	// +optional
	Tunnels bool `json:"tunnels,omitempty"`
}

// EnvVar is an environment variable.
type EnvVar struct {
	// name is the variable's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// value is its value.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
}

// ClusterImportStatus is what has become of an import.
type ClusterImportStatus struct {
	// conditions: KubeconfigUsable, AgentInstalled, Joined, Drifted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// appliedHash is the hash of what is installed.
	// +optional
	AppliedHash string `json:"appliedHash,omitempty"`

	// redeployed is the counter that was carried out.
	// +optional
	Redeployed int64 `json:"redeployed,omitempty"`

	// kubeconfigVersion is the resource version of the Secret that the conditions
	// are about, or that was the last one there. Who hands a kubeconfig in knows by it
	// that the hub has dealt with it.
	// +optional
	KubeconfigVersion string `json:"kubeconfigVersion,omitempty"`

	// clusterUID is the cluster that the agent was installed in.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`

	// clusterAuthority is who vouched for its API server then.
	// +optional
	ClusterAuthority string `json:"clusterAuthority,omitempty"`

	// rejoined is the counter rejoin that was used up.
	// +optional
	Rejoined int64 `json:"rejoined,omitempty"`

	// publishedServer is the URL that publishServer has put into the ManagedCluster.
	// +optional
	PublishedServer string `json:"publishedServer,omitempty"`
}

// ClusterImportList is a list of cluster imports.
//
// +kubebuilder:object:root=true
type ClusterImportList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []ClusterImport `json:"items"`
}
