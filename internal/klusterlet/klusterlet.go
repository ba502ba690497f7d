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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
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

// Serves is the name of the cluster that an agent's Deployment was installed for;
// empty when it has none.
func Serves(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, arg := range c.Args {
			if name, ok := strings.CutPrefix(arg, "--cluster-name="); ok {
				return name
			}
		}
	}
	return ""
}

// InstalledBy is who installs an agent, by its Deployment; empty when it does not
// say.
func InstalledBy(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	return d.Annotations[muster.InstalledByAnnotation]
}

// OptionsOf are the options with which Render makes a Deployment like the one of an
// agent that is installed, as to take it over. What is as without an option is not
// set. The namespace is the Deployment's.
func OptionsOf(d *appsv1.Deployment) v1alpha1.AgentOptions {
	pod := d.Spec.Template.Spec
	o := v1alpha1.AgentOptions{
		Namespace: d.Namespace, Labels: without(d.Labels, AppLabel),
		Annotations:      without(d.Spec.Template.Annotations, "kubectl.kubernetes.io/restartedAt"),
		ImagePullSecrets: pod.ImagePullSecrets, Tolerations: pod.Tolerations, NodeSelector: pod.NodeSelector,
		Affinity:    pod.Affinity,
		HostNetwork: pod.HostNetwork, PriorityClassName: pod.PriorityClassName,
	}
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == Name })
	if i < 0 {
		return o
	}
	c := pod.Containers[i]
	if c.Image != DefaultImage() {
		o.Image = c.Image
	}
	if c.ImagePullPolicy != defaultPullPolicy(c.Image) {
		o.ImagePullPolicy = c.ImagePullPolicy
	}
	standard := Options{ClusterName: Serves(d), AgentOptions: v1alpha1.AgentOptions{Namespace: d.Namespace}}
	if !equality.Semantic.DeepEqual(c.Resources, standard.resources()) {
		o.Resources = c.Resources.DeepCopy()
	}
	if own := standard.args(); len(c.Args) >= len(own) && slices.Equal(c.Args[:len(own)], own) {
		rest := c.Args[len(own):]
		if len(rest) > 0 && rest[0] == "--"+userAccessFlag {
			o.UserAccess, rest = true, rest[1:]
		}
		if len(rest) > 0 && rest[0] == "--"+tunnelsFlag {
			o.Tunnels, rest = true, rest[1:]
		}
		if len(rest) > 0 {
			o.Args = slices.Clone(rest)
		}
	}
	o.Env = envOf(c.Env)
	return o
}

// defaultPullPolicy is what an API server fills in.
func defaultPullPolicy(image string) corev1.PullPolicy {
	name := image[strings.LastIndex(image, "/")+1:]
	if !strings.Contains(name, "@") && (!strings.Contains(name, ":") || strings.HasSuffix(name, ":latest")) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// without are entries without one, and nil when there is no other.
func without(entries map[string]string, key string) map[string]string {
	entries = maps.Clone(entries)
	delete(entries, key)
	if len(entries) == 0 {
		return nil
	}
	return entries
}

// envOf are the variables with a value of their own, without what env adds.
func envOf(variables []corev1.EnvVar) []v1alpha1.EnvVar {
	var env []v1alpha1.EnvVar
	for _, v := range variables {
		if v.ValueFrom != nil || v.Value == ownServer && strings.ToUpper(v.Name) == noProxy {
			continue
		}
		if strings.ToUpper(v.Name) == noProxy {
			v.Value = strings.TrimSuffix(v.Value, ","+ownServer)
		}
		env = append(env, v1alpha1.EnvVar{Name: v.Name, Value: v.Value})
	}
	return env
}
