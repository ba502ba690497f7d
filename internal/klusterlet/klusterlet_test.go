package klusterlet_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func TestObjectsComeInApplyOrder(t *testing.T) {
	withSecret := []string{
		"v1 Namespace open-cluster-management-agent",
		"v1 ServiceAccount open-cluster-management-agent/klusterlet-agent-sa",
		"rbac.authorization.k8s.io/v1 Role open-cluster-management-agent/open-cluster-management:klusterlet:agent",
		"rbac.authorization.k8s.io/v1 RoleBinding open-cluster-management-agent/open-cluster-management:klusterlet:agent",
		"rbac.authorization.k8s.io/v1 ClusterRole open-cluster-management:klusterlet-registration:agent",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding open-cluster-management:klusterlet-registration:agent",
		"rbac.authorization.k8s.io/v1 ClusterRole open-cluster-management:klusterlet-work:agent",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding open-cluster-management:klusterlet-work:agent",
		"v1 Namespace open-cluster-management-agent-addon",
		"rbac.authorization.k8s.io/v1 ClusterRole open-cluster-management:klusterlet-addon:agent",
		"rbac.authorization.k8s.io/v1 RoleBinding open-cluster-management-agent-addon/open-cluster-management:klusterlet-addon:agent",
		"v1 Secret open-cluster-management-agent/bootstrap-hub-kubeconfig",
		"apps/v1 Deployment open-cluster-management-agent/klusterlet-agent",
	}
	without := slices.DeleteFunc(slices.Clone(withSecret), func(s string) bool { return strings.Contains(s, " Secret ") })
	moved := make([]string, len(without))
	for i, s := range without {
		moved[i] = s
		if !strings.Contains(s, addon.DefaultInstallNamespace) {
			moved[i] = strings.ReplaceAll(s, cluster.AgentNamespace, "elsewhere")
		}
	}
	for _, tc := range []struct {
		name string
		o    klusterlet.Options
		want []string
	}{
		{"with a bootstrap kubeconfig", klusterlet.Options{ClusterName: "c1", BootstrapKubeconfig: []byte("x")}, withSecret},
		{"with a Secret made elsewhere", klusterlet.Options{ClusterName: "c1"}, without},
		{"in another namespace", klusterlet.Options{ClusterName: "c1", AgentOptions: v1alpha1.AgentOptions{Namespace: "elsewhere"}}, moved},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, o := range klusterlet.Render(tc.o) {
				got = append(got, id(o))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

func id(o klusterlet.Object) string {
	gvk := o.GetObjectKind().GroupVersionKind()
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return fmt.Sprintf("%s %s %s", schema.GroupVersion{Group: gvk.Group, Version: gvk.Version}, gvk.Kind, name)
}

// get finds the one object of type T among what o renders.
func get[T klusterlet.Object](t *testing.T, o klusterlet.Options) T {
	t.Helper()
	for _, object := range klusterlet.Render(o) {
		if found, ok := object.(T); ok {
			return found
		}
	}
	t.Fatalf("no %T", *new(T))
	panic("unreachable")
}

func TestAgentsArguments(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    klusterlet.Options
		want []string
	}{
		{"defaults", klusterlet.Options{ClusterName: "c1"}, []string{
			"agent", "--cluster-name=c1", "--namespace=open-cluster-management-agent",
			"--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig", "--health-address=:8000",
		}},
		{"own arguments come last, so that they win", klusterlet.Options{ClusterName: "c1", AgentOptions: v1alpha1.AgentOptions{Namespace: "ns", Args: []string{"-v=4"}}}, []string{
			"agent", "--cluster-name=c1", "--namespace=ns",
			"--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig", "--health-address=:8000", "-v=4",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := get[*appsv1.Deployment](t, tc.o).Spec.Template.Spec.Containers[0]
			if !slices.Equal(c.Command, []string{"/muster"}) || !slices.Equal(c.Args, tc.want) {
				t.Errorf("got %q %q, want /muster %q", c.Command, c.Args, tc.want)
			}
		})
	}
}

func TestBootstrapSecretIsWhereTheAgentLooks(t *testing.T) {
	o := klusterlet.Options{ClusterName: "c1", BootstrapKubeconfig: []byte("the kubeconfig")}
	secret := get[*corev1.Secret](t, o)
	if got := string(secret.Data[cluster.KubeconfigKey]); got != "the kubeconfig" {
		t.Errorf("secret holds %q", got)
	}
	pod := get[*appsv1.Deployment](t, o).Spec.Template.Spec
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret.Name
	})
	if i < 0 {
		t.Fatalf("no volume of secret %s in %+v", secret.Name, pod.Volumes)
	}
	if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == pod.Volumes[i].Name && m.MountPath == "/spoke/bootstrap" && m.ReadOnly
	}) {
		t.Errorf("volume %s is not at /spoke/bootstrap: mounts %+v", pod.Volumes[i].Name, pod.Containers[0].VolumeMounts)
	}
}

func TestImage(t *testing.T) {
	for given, want := range map[string]string{
		"":                       klusterlet.DefaultImage(),
		"registry.example/x:1.2": "registry.example/x:1.2",
	} {
		if got := get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "c1", AgentOptions: v1alpha1.AgentOptions{Image: given}}).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("image %q: got %q, want %q", given, got, want)
		}
	}
	if !strings.HasPrefix(klusterlet.DefaultImage(), "ghcr.io/muster-fleet/muster:v") {
		t.Errorf("default image %q", klusterlet.DefaultImage())
	}
}

func TestPodMeetsTheRestrictedSecurityStandard(t *testing.T) {
	pod := get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "c1"}).Spec.Template.Spec
	c := pod.Containers[0].SecurityContext
	for what, ok := range map[string]bool{
		"not root":                 *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser > 0,
		"seccomp":                  pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"read-only root":           *c.ReadOnlyRootFilesystem,
		"no privilege escalation":  !*c.AllowPrivilegeEscalation && !*c.Privileged,
		"no capabilities":          slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"memory is limited":        !pod.Containers[0].Resources.Limits.Memory().IsZero(),
		"liveness is looked after": pod.Containers[0].LivenessProbe.HTTPGet.Path == "/livez" && pod.Containers[0].ReadinessProbe.HTTPGet.Path == "/readyz",
	} {
		if !ok {
			t.Errorf("violated: %s", what)
		}
	}
}

func TestProbesAskThePortThatTheAgentListensOn(t *testing.T) {
	c := get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "c1"}).Spec.Template.Spec.Containers[0]
	if want := fmt.Sprintf("--health-address=:%d", c.Ports[0].ContainerPort); !slices.Contains(c.Args, want) {
		t.Errorf("arguments %q lack %q", c.Args, want)
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if p.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("probe of port %q, want %q", p.HTTPGet.Port.StrVal, c.Ports[0].Name)
		}
	}
}

func TestAnUpgradeNeverLeavesTheClusterWithoutAnAgent(t *testing.T) {
	d := get[*appsv1.Deployment](t, klusterlet.Options{ClusterName: "c1"}).Spec
	if *d.Replicas != 1 || d.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType ||
		d.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 || d.Strategy.RollingUpdate.MaxSurge.IntValue() != 1 {
		t.Errorf("%d replicas, strategy %+v", *d.Replicas, d.Strategy)
	}
}

func TestLabels(t *testing.T) {
	given := map[string]string{"team": "a", "app": "not-this"}
	objects := klusterlet.Render(klusterlet.Options{ClusterName: "c1", AgentOptions: v1alpha1.AgentOptions{Labels: given}, BootstrapKubeconfig: []byte("x")})
	for _, o := range objects {
		if o.GetLabels()["team"] != "a" {
			t.Errorf("%s: labels %v", id(o), o.GetLabels())
		}
	}
	d := objects[len(objects)-1].(*appsv1.Deployment)
	for where, labels := range map[string]map[string]string{"deployment": d.Labels, "pod": d.Spec.Template.Labels} {
		if labels["app"] != "klusterlet-agent" || labels["team"] != "a" {
			t.Errorf("%s: labels %v", where, labels)
		}
	}
	if d.Spec.Selector.MatchLabels["app"] != "klusterlet-agent" || len(d.Spec.Selector.MatchLabels) != 1 {
		t.Errorf("selector %v: it cannot change later, so it names nothing that the user may change", d.Spec.Selector.MatchLabels)
	}
	objects[0].GetLabels()["team"] = "b"
	if given["team"] != "a" || objects[1].GetLabels()["team"] != "a" {
		t.Error("objects share a map of labels")
	}
}

func TestEveryRoleIsBoundToTheAgent(t *testing.T) {
	objects := klusterlet.Render(klusterlet.Options{ClusterName: "c1", AgentOptions: v1alpha1.AgentOptions{Namespace: "ns"}})
	roles, bound := map[string]bool{}, map[string]bool{}
	subjects := func(s []rbacv1.Subject) bool {
		return slices.Equal(s, []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns", Name: "klusterlet-agent-sa"}})
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *rbacv1.Role:
			roles["Role "+o.Name] = len(o.Rules) > 0
		case *rbacv1.ClusterRole:
			roles["ClusterRole "+o.Name] = len(o.Rules) > 0
		case *rbacv1.RoleBinding:
			bound[o.RoleRef.Kind+" "+o.RoleRef.Name] = subjects(o.Subjects)
		case *rbacv1.ClusterRoleBinding:
			bound[o.RoleRef.Kind+" "+o.RoleRef.Name] = subjects(o.Subjects)
		}
	}
	if len(roles) != 4 {
		t.Errorf("roles %v", roles)
	}
	for role, hasRules := range roles {
		if !hasRules || !bound[role] {
			t.Errorf("%s: has rules %t, is bound to the agent %t", role, hasRules, bound[role])
		}
	}
}

func TestProviderCanLinkIt(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if path == "k8s.io/client-go/kubernetes" || strings.HasPrefix(path, "k8s.io/kubernetes/") {
			t.Errorf("links %s, which the provider has no room for", path)
		}
	}
}

// What is looked for and deleted includes the bootstrap Secret, which an earlier
// configuration may have left.
func TestObjectsIncludeTheBootstrapSecret(t *testing.T) {
	o := klusterlet.Options{ClusterName: "c1"}
	all, rendered, obsolete := klusterlet.Objects(o), klusterlet.Render(o), klusterlet.Obsolete(o)
	if len(all) != len(rendered)+len(obsolete)+1 {
		t.Fatalf("%d objects, want one more than the %d that are applied and the %d that are not needed", len(all), len(rendered), len(obsolete))
	}
	if secret := all[len(all)-2]; secret.GetName() != cluster.BootstrapSecret || secret.GetNamespace() != cluster.AgentNamespace {
		t.Errorf("before the Deployment there is %s/%s, want the bootstrap Secret", secret.GetNamespace(), secret.GetName())
	}
}
