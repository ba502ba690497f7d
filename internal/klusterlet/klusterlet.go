// Package klusterlet renders what must exist in a managed cluster so that the
// muster agent runs there as a pod: a namespace, an identity with its rights,
// the bootstrap kubeconfig, and a Deployment.
//
// It only makes objects. Who applies them decides how: the Terraform provider
// does by server-side apply, people do with kubectl.
package klusterlet

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Names of the objects.
const (
	// Name is the name of the Deployment and of its container, and the value of
	// the label "app" on its pods.
	Name = "klusterlet-agent"
	// ServiceAccount is who the agent is in the managed cluster.
	ServiceAccount = "klusterlet-agent-sa"

	// AppLabel is on the Deployment and its pods, with the value Name.
	AppLabel = "app"

	// RegistrationRole is the ClusterRole for what the agent itself needs.
	RegistrationRole = "open-cluster-management:klusterlet-registration:agent"
	// WorkRole is the ClusterRole for what the hub's works may do here.
	WorkRole = "open-cluster-management:klusterlet-work:agent"
	// NamespaceRole is the Role for the agent's own namespace.
	NamespaceRole = "open-cluster-management:klusterlet:agent"

	imageRepository = "ghcr.io/muster-fleet/muster"
)

// Options say what to render.
type Options struct {
	// ClusterName is the cluster's name on the hub. Required.
	ClusterName string
	// Namespace is where the agent lives; cluster.AgentNamespace by default.
	Namespace string
	// Image is the agent's image; DefaultImage by default.
	Image string
	// BootstrapKubeconfig is the kubeconfig by which the agent asks the hub to
	// be registered. When it is empty no Secret is rendered, and the one named
	// cluster.BootstrapSecret must come from somewhere else.
	BootstrapKubeconfig []byte
	// Args are further arguments of `muster agent`.
	Args []string
	// Labels are added to every object, pods included. The labels that the
	// objects need themselves win.
	Labels map[string]string
}

// Object is any Kubernetes object. It is what controller-runtime calls
// client.Object; that package brings the whole typed clientset with it, which
// the Terraform provider keeps out.
type Object interface {
	metav1.Object
	runtime.Object
}

// DefaultImage is the image of this version of muster. What a version may have
// and a tag may not, the plus of a build from changed sources, becomes a hyphen.
func DefaultImage() string {
	return imageRepository + ":" + strings.ReplaceAll(version.Version(), "+", "-")
}

// Render returns the objects in the order in which they can be applied. The
// Secret with the bootstrap kubeconfig is among them only if there is one.
func Render(o Options) []Object {
	objects := Objects(o)
	if len(o.BootstrapKubeconfig) > 0 {
		return objects
	}
	return slices.DeleteFunc(objects, func(object Object) bool {
		_, isSecret := object.(*corev1.Secret)
		return isSecret
	})
}

// Objects are all objects that an installed agent may have, as to find or delete
// them: the Secret with the bootstrap kubeconfig is among them in any case. To
// remove the agent, delete them in the reverse order.
func Objects(o Options) []Object {
	o.complete()
	objects := []Object{o.namespace(), o.serviceAccount()}
	objects = append(objects, o.rbac()...)
	return append(objects, o.bootstrapSecret(), o.deployment())
}

func (o *Options) complete() {
	if o.Namespace == "" {
		o.Namespace = cluster.AgentNamespace
	}
	if o.Image == "" {
		o.Image = DefaultImage()
	}
}

func (o *Options) namespace() *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: o.meta("", o.Namespace),
	}
}

func (o *Options) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: o.meta(o.Namespace, ServiceAccount),
	}
}

func (o *Options) bootstrapSecret() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: o.meta(o.Namespace, cluster.BootstrapSecret),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{cluster.KubeconfigKey: o.BootstrapKubeconfig},
	}
}

func (o *Options) meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: maps.Clone(o.Labels)}
}

// labels are those of o with AppLabel.
func (o *Options) labels() map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, o.Labels)
	labels[AppLabel] = Name
	return labels
}
