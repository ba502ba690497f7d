package klusterlet

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// rendered is one of the agent's objects.
func rendered[T kube.Object](t *testing.T, name string) T {
	t.Helper()
	for _, object := range klusterlet.Render(klusterlet.Options{ClusterName: "c"}) {
		if found, ok := object.(T); ok && object.GetName() == name {
			return found
		}
	}
	t.Fatalf("there is no %s", name)
	panic("unreachable")
}

func TestADeploymentIsComparedByWhatTheProviderSets(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"nothing": {func(*appsv1.Deployment) {}, ""},
		"what the server fills in": {func(d *appsv1.Deployment) {
			d.Generation, d.Status.Replicas = 3, 1
			d.Spec.RevisionHistoryLimit = ptr.To[int32](10)
			d.Spec.Template.Spec.DNSPolicy = corev1.DNSClusterFirst
			d.Spec.Template.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 1
			d.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
		}, ""},
		"replicas": {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }, "spec.replicas was changed"},
		"image":    {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "x" }, "spec.template.spec.containers[klusterlet-agent].image was changed"},
		"an argument": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, "-v=9")
		}, "spec.template.spec.containers[klusterlet-agent].args was changed"},
		"no container": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, "spec.template.spec.containers[klusterlet-agent] was changed"},
		"privileges": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].SecurityContext.Privileged = ptr.To(true)
		}, "spec.template.spec.containers[klusterlet-agent].securityContext.privileged was changed"},
		"account":      {func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "default" }, "spec.template.spec.serviceAccountName was changed"},
		"label":        {func(d *appsv1.Deployment) { d.Labels = nil }, "metadata.labels was changed"},
		"on its way":   {func(d *appsv1.Deployment) { d.DeletionTimestamp = ptr.To(metav1.Now()) }, "is being deleted"},
		"memory limit": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources.Limits = nil }, "spec.template.spec.containers[klusterlet-agent].resources.limits was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := rendered[*appsv1.Deployment](t, klusterlet.Name)
			live := wanted.DeepCopy()
			test.change(live)
			if got := drift(wanted, live); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Rules and subjects have one owner: one that somebody adds is a right that nobody
// has decided on.
func TestRightsAreComparedWhole(t *testing.T) {
	role := rendered[*rbacv1.ClusterRole](t, klusterlet.RegistrationRole)
	for name, change := range map[string]func(*rbacv1.ClusterRole){
		"none":     func(r *rbacv1.ClusterRole) { r.Rules = nil },
		"one more": func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"*"}}) },
		"narrowed": func(r *rbacv1.ClusterRole) { r.Rules[0].ResourceNames = []string{"x"} },
	} {
		live := role.DeepCopy()
		change(live)
		if got := drift(role, live); got != "rules was changed" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	binding := rendered[*rbacv1.ClusterRoleBinding](t, klusterlet.WorkRole)
	live := binding.DeepCopy()
	live.Subjects = append(live.Subjects, rbacv1.Subject{Kind: "User", Name: "mallory"})
	if got := drift(binding, live); got != "subjects was changed" {
		t.Errorf("a subject more: got %q", got)
	}
}

// Whatever option is set is compared, and nothing of what is not set.
func TestOptionsAreCompared(t *testing.T) {
	options := v1alpha1.AgentOptions{
		ImagePullPolicy: corev1.PullAlways, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		Annotations: map[string]string{"note": "a"}, Labels: map[string]string{"team": "a"}, Env: []v1alpha1.EnvVar{{Name: "GODEBUG", Value: "1"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, NodeSelector: map[string]string{"pool": "a"},
		Affinity:    &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}}}},
		Resources:   &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
		HostNetwork: true, PriorityClassName: "high", UserAccess: true, Tunnels: true,
	}
	objects := klusterlet.Render(klusterlet.Options{ClusterName: "c", AgentOptions: options, InstalledBy: muster.InstalledByTerraform})
	wanted := objects[len(objects)-1].(*appsv1.Deployment)
	const pod, container = "spec.template.spec.", "spec.template.spec.containers[klusterlet-agent]."
	for want, change := range map[string]func(d *appsv1.Deployment, pod *corev1.PodSpec, c *corev1.Container){
		"metadata.labels.team":               func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) { d.Labels["team"] = "b" },
		"spec.template.metadata.annotations": func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) { d.Spec.Template.Annotations = nil },
		pod + "tolerations":                  func(_ *appsv1.Deployment, pod *corev1.PodSpec, _ *corev1.Container) { pod.Tolerations = nil },
		pod + "nodeSelector.pool":            func(_ *appsv1.Deployment, pod *corev1.PodSpec, _ *corev1.Container) { pod.NodeSelector["pool"] = "b" },
		pod + "affinity":                     func(_ *appsv1.Deployment, pod *corev1.PodSpec, _ *corev1.Container) { pod.Affinity = nil },
		pod + "priorityClassName":            func(_ *appsv1.Deployment, pod *corev1.PodSpec, _ *corev1.Container) { pod.PriorityClassName = "" },
		pod + "hostNetwork":                  func(_ *appsv1.Deployment, pod *corev1.PodSpec, _ *corev1.Container) { pod.HostNetwork = false },
		pod + "imagePullSecrets[registry]":   func(_ *appsv1.Deployment, pod *corev1.PodSpec, _ *corev1.Container) { pod.ImagePullSecrets = nil },
		container + "imagePullPolicy": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.ImagePullPolicy = corev1.PullNever
		},
		container + "env[GODEBUG].value": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Env[0].Value = "2" },
		container + "resources.limits.memory": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("2Gi")
		},
		container + "args": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Args = c.Args[:5] },
	} {
		live := wanted.DeepCopy()
		change(live, &live.Spec.Template.Spec, &live.Spec.Template.Spec.Containers[0])
		if got := drift(wanted, live); got != want+" was changed" {
			t.Errorf("got %q, want a change of %s", got, want)
		}
	}
	// An agent that an earlier version has installed does not say who installed it.
	live := wanted.DeepCopy()
	live.Annotations = nil
	if got := drift(wanted, live); got != "" {
		t.Errorf("an agent of an earlier version: %s", got)
	}
}

// The agent writes the bootstrap kubeconfig itself when its hub has moved. Anybody
// else's write is a difference.
func TestABootstrapKubeconfigThatTheAgentHasWrittenIsNoDifference(t *testing.T) {
	kubeconfig := []byte(`{apiVersion: v1, kind: Config, current-context: b, contexts: [{name: b, context: {cluster: hub}}], clusters: [{name: hub, cluster: {server: "https://new"}}]}`)
	for _, test := range []struct {
		manager   string
		operation metav1.ManagedFieldsOperationType
		same      bool
	}{
		{"terraform-provider-muster", metav1.ManagedFieldsOperationApply, true},
		{muster.AgentFieldManager, metav1.ManagedFieldsOperationUpdate, true},
		{"kubectl-edit", metav1.ManagedFieldsOperationUpdate, false},
	} {
		live := &corev1.Secret{Data: map[string][]byte{"kubeconfig": kubeconfig}}
		live.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: test.manager, Operation: test.operation, FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:kubeconfig":{}}}`)},
		}
		if got := drift(&corev1.Secret{}, live); (got == "") != test.same {
			t.Errorf("written by %s: got %q", test.manager, got)
		}
	}
}
