package klusterlet

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

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
		Namespace: d.Namespace, Labels: without(d.Labels, AppLabel), Annotations: without(d.Spec.Template.Annotations, "kubectl.kubernetes.io/restartedAt"),
		ImagePullSecrets: pod.ImagePullSecrets, Tolerations: pod.Tolerations, NodeSelector: pod.NodeSelector, Affinity: pod.Affinity,
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
