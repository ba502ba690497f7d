package klusterlet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// Whatever of the agent's objects is changed is named at refresh and restored by the
// next apply. What others have added stays.
func TestAccKlusterletRestoresEachOfItsObjects(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	w := acctest.NewWorkspace(t)
	config := klusterletConfig(process.Kubeconfig, fmt.Sprintf(bootstrapOf, 1))
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	const namespace = "kl-agent"
	managed.Patch(&rbacv1.ClusterRole{}, "", klusterlet.WorkRole, `{"metadata":{"labels":{"theirs":"yes"}}}`)
	managed.Patch(&corev1.Namespace{}, "", namespace, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	managed.Patch(&appsv1.Deployment{}, namespace, klusterlet.Name, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
	if said := w.Plan(config); !strings.Contains(said, "No changes.") {
		t.Errorf("what others add counts as a change: %s", said)
	}
	// A binding to another role can't be patched into its place.
	managed.Remove(&rbacv1.RoleBinding{}, namespace, klusterlet.NamespaceRole)
	other := &rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}}
	other.Namespace, other.Name = namespace, klusterlet.NamespaceRole
	managed.Apply(other)
	managed.Remove(&corev1.ServiceAccount{}, namespace, klusterlet.ServiceAccount)
	managed.Remove(&rbacv1.ClusterRoleBinding{}, "", klusterlet.RegistrationRole)
	managed.Patch(&rbacv1.ClusterRole{}, "", klusterlet.WorkRole, `{"rules":[]}`)
	managed.Patch(&rbacv1.ClusterRole{}, "", klusterlet.RegistrationRole, `{"rules":null}`)
	managed.Patch(&rbacv1.Role{}, namespace, klusterlet.NamespaceRole, `{"rules":[]}`)
	managed.Patch(&rbacv1.ClusterRoleBinding{}, "", klusterlet.WorkRole, `{"subjects":[]}`)
	managed.Patch(&corev1.Secret{}, namespace, cluster.BootstrapSecret, `{"data":{"kubeconfig":""}}`)
	managed.Patch(&appsv1.Deployment{}, namespace, klusterlet.Name, `{"spec":{"template":{"spec":{"serviceAccountName":"default"}}}}`)
	said := w.Plan(config)
	acctest.Says(t, said, `The agent in cluster "kl" was changed`, "installed = false -> true", "0 to add, 1 to change, 0 to destroy",
		"ServiceAccount klusterlet-agent-sa is missing",
		"ClusterRoleBinding open-cluster-management:klusterlet-registration:agent is missing",
		"ClusterRole open-cluster-management:klusterlet-work:agent: rules was changed",
		"ClusterRole open-cluster-management:klusterlet-registration:agent: rules was changed",
		"Role open-cluster-management:klusterlet:agent: rules was changed",
		"RoleBinding open-cluster-management:klusterlet:agent: ",
		"ClusterRoleBinding open-cluster-management:klusterlet-work:agent: subjects was changed",
		"Secret bootstrap-hub-kubeconfig: holds no bootstrap kubeconfig",
		"Deployment klusterlet-agent: spec.template.spec.serviceAccountName was changed")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	if said := w.Plan(config); !strings.Contains(said, "No changes.") {
		t.Errorf("not all is restored: %s", said)
	}
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.RoleBinding{}
	managed.Get(role, "", klusterlet.WorkRole)
	managed.Get(binding, namespace, klusterlet.NamespaceRole)
	if len(role.Rules) == 0 || role.Labels["theirs"] != "yes" || role.Labels[work.AggregateToWorkLabel] != "true" || binding.RoleRef.Kind != "Role" || len(binding.Subjects) != 1 {
		t.Errorf("restored are %v with %v, and %v", role.Rules, role.Labels, binding)
	}
	// A kubeconfig that somebody else has put in place of ours is replaced.
	managed.Patch(&corev1.Secret{}, namespace, cluster.BootstrapSecret, `{"data":{"kubeconfig":"`+foreignKubeconfig+`"}}`)
	acctest.Says(t, w.Plan(config), "Secret bootstrap-hub-kubeconfig: data.kubeconfig was changed")
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

// foreignKubeconfig is {"current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],"clusters":[{"name":"x","cluster":{"server":"https://evil"}}]}.
const foreignKubeconfig = "eyJjdXJyZW50LWNvbnRleHQiOiJ4IiwiY29udGV4dHMiOlt7Im5hbWUiOiJ4IiwiY29udGV4dCI6eyJjbHVzdGVyIjoieCJ9fV0sImNsdXN0ZXJzIjpbeyJuYW1lIjoieCIsImNsdXN0ZXIiOnsic2VydmVyIjoiaHR0cHM6Ly9ldmlsIn19XX0="

// What somebody adds to the agent's Deployment runs with an administrator's rights: the plan
// names each of it, and the apply removes it.
func TestAccKlusterletRemovesWhatWasAddedToItsAgent(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	w := acctest.NewWorkspace(t)
	config := klusterletConfig(process.Kubeconfig, fmt.Sprintf(bootstrapOf, 1)+"node_selector = { \"kubernetes.io/os\" = \"linux\" }\n")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	const namespace = "kl-agent"
	d := &appsv1.Deployment{}
	managed.Get(d, namespace, klusterlet.Name)
	clean := d.DeepCopy()
	pod := &d.Spec.Template.Spec
	pod.HostNetwork, pod.DNSPolicy = true, corev1.DNSDefault
	host := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host", VolumeSource: host})
	pod.Containers[0].Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://evil:3128"}}
	pod.Containers[0].Image = "evil"
	pod.InitContainers = []corev1.Container{{Name: "before", Image: "evil"}}
	mounts := []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}
	pod.Containers = append(pod.Containers, corev1.Container{Name: "beside", Image: "evil", VolumeMounts: mounts})
	pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // where it runs is the cluster's affair
	change(t, managed, d)
	managed.Patch(&rbacv1.ClusterRole{}, "", klusterlet.RegistrationRole,
		`{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"x":"y"}}]}}`)
	const at = "Deployment klusterlet-agent: spec.template.spec."
	acctest.Says(t, w.Plan(config), "installed = false -> true", at+"containers[klusterlet-agent].image was changed",
		at+"containers[beside] was added", at+"initContainers[before] was added", at+"volumes[host] was added",
		at+"hostNetwork was added", at+"dnsPolicy was added",
		at+"containers[klusterlet-agent].env[HTTPS_PROXY] was added",
		"ClusterRole open-cluster-management:klusterlet-registration:agent: aggregationRule was added")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	if said := w.Plan(config); !strings.Contains(said, "No changes.") {
		t.Errorf("not all is removed: %s", said)
	}
	managed.Get(d, namespace, klusterlet.Name)
	if len(d.Spec.Template.Spec.Tolerations) != 1 {
		t.Error("the cluster's toleration is gone")
	}
	d.Spec.Template.Spec.Tolerations = nil
	if !equality.Semantic.DeepEqual(d.Spec.Template, clean.Spec.Template) {
		t.Errorf("restored is %+v", d.Spec.Template)
	}
	// What the configuration has no more goes with the apply, as before.
	without := klusterletConfig(process.Kubeconfig, fmt.Sprintf(bootstrapOf, 1))
	if said, ok := w.Apply(without); !ok {
		t.Fatal(said)
	}
	managed.Get(d, namespace, klusterlet.Name)
	if d.Spec.Template.Spec.NodeSelector != nil {
		t.Errorf("the node selector %v stays", d.Spec.Template.Spec.NodeSelector)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

// change replaces a Deployment as somebody else, whatever its controller does meanwhile.
func change(t *testing.T, as *acctest.Outsider, d *appsv1.Deployment) {
	t.Helper()
	ctx, cancel := as.Context()
	defer cancel()
	for range 10 {
		now := &appsv1.Deployment{}
		as.Get(now, d.Namespace, d.Name)
		now.Spec = d.Spec
		err := as.Client.Update(ctx, now, "somebody")
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	t.Fatal("the Deployment changes all the time")
}

// A namespace that is being deleted is no place for an agent: the plan says so, and
// the apply goes on when it is gone.
func TestAccKlusterletReturnsAfterADeletionOfItsNamespace(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	w := acctest.NewWorkspace(t)
	config := klusterletConfig(process.Kubeconfig, fmt.Sprintf(bootstrapOf, 1)+"timeouts { update = \"2s\" }\n")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	held := &corev1.ConfigMap{}
	held.Namespace, held.Name, held.Finalizers = "kl-agent", "held", []string{"example.com/held"}
	managed.Apply(held)
	ctx, cancel := managed.Context()
	defer cancel()
	if _, err := managed.Client.Delete(ctx, &corev1.Namespace{}, "", "kl-agent", ""); err != nil {
		t.Fatal(err)
	}
	acctest.Says(t, w.Plan(config), "Namespace kl-agent: is being deleted", "installed = false -> true")
	said, ok := w.Apply(config)
	if ok {
		t.Error("the agent was installed in a namespace that is being deleted")
	}
	acctest.Says(t, said, "Its namespace kl-agent is still being deleted after 2s.")
	managed.Patch(&corev1.ConfigMap{}, "kl-agent", "held", `{"metadata":{"finalizers":null}}`)
	if err := managed.Client.Wait(ctx, &corev1.Namespace{}, "", "kl-agent", func(exists bool) (bool, error) { return !exists, nil }); err != nil {
		t.Fatal(err)
	}
	if said, ok := w.Apply(config); !ok || !managed.Exists(&appsv1.Deployment{}, "kl-agent", klusterlet.Name) {
		t.Error(said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

// After its hub was rebuilt, the plan says that the agent belongs to the hub from
// before, and the apply takes it back.
func TestAccKlusterletComesBackToARebuiltHub(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "hub")
	hub, err := testhub.StartHub(program, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Kill() })
	config := fmt.Sprintf("provider \"muster\" {\n  kubeconfig_path = %q\n}\n", hub.Kubeconfig) + onboardingConfig("rebuilt", process.Kubeconfig, "")
	acctest.Run(t,
		resource.TestStep{Config: config, ConfigStateChecks: isReady()},
		resource.TestStep{
			PreConfig: func() {
				if err := hub.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				if err := hub.Restart(); err != nil {
					t.Fatal(err)
				}
			},
			Config:            config,
			ConfigPlanChecks:  plannedAction(plancheck.ResourceActionUpdate),
			ConfigStateChecks: isReady(),
		},
		resource.TestStep{Config: config, PlanOnly: true},
	)
}
