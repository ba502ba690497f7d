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
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
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
	// AccessRole is the ClusterRole for what user access needs, apart from the
	// others: it lets the agent approve client certificates.
	AccessRole = "open-cluster-management:klusterlet-access:agent"
	// NamespaceRole is the Role for the agent's own namespace.
	NamespaceRole = "open-cluster-management:klusterlet:agent"

	imageRepository = "ghcr.io/muster-fleet/muster"
)

// Options say what to render.
type Options struct {
	// AgentOptions say how the agent runs. The namespace is cluster.AgentNamespace
	// by default, and the image DefaultImage. Labels that the objects need
	// themselves win. Check them with Validate.
	v1alpha1.AgentOptions
	// ClusterName is the cluster's name on the hub. Without it the agent registers
	// by its client ID.
	ClusterName string
	// ClientID is that client ID; the UID of the namespace kube-system by default.
	ClientID string
	// BootstrapKubeconfig is the kubeconfig by which the agent asks the hub to
	// be registered. When it is empty no Secret is rendered, and the one named
	// cluster.BootstrapSecret must come from somewhere else.
	BootstrapKubeconfig []byte
	// InstalledBy is who installs the agent, such as muster.InstalledByTerraform.
	// The Deployment says so in the annotation muster.InstalledByAnnotation.
	InstalledBy string
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
// Secret with the bootstrap kubeconfig is among them only if there is one, and what
// user access needs only with it.
func Render(o Options) []Object {
	return slices.DeleteFunc(Objects(o), func(object Object) bool {
		_, isSecret := object.(*corev1.Secret)
		return (isSecret && len(o.BootstrapKubeconfig) == 0) || o.obsolete(object)
	})
}

// Objects are all objects that an installed agent may have, as to find or delete
// them: the Secret with the bootstrap kubeconfig is among them in any case, and so
// is what an option that is off would need. To remove the agent, delete them in the
// reverse order.
func Objects(o Options) []Object {
	o.complete()
	objects := []Object{o.namespace(), o.serviceAccount()}
	objects = append(objects, o.rbac()...)
	objects = append(objects, o.addOns()...)
	objects = append(objects, o.accessRBAC()...)
	return append(objects, o.bootstrapSecret(), o.deployment())
}

// Obsolete are the objects that an agent with these options does not have, and may
// have had with others: delete them. They are rights, so they can't be left.
func Obsolete(o Options) []Object {
	return slices.DeleteFunc(Objects(o), func(object Object) bool { return !o.obsolete(object) })
}

// obsolete reports whether an agent with these options must not have the object.
func (o *Options) obsolete(object Object) bool {
	return !o.UserAccess && object.GetName() == AccessRole
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
