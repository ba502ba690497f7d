package klusterlet_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
)

func renderedAs[T klusterlet.Object](t *testing.T, name string) T {
	t.Helper()
	for _, object := range klusterlet.Render(klusterlet.Options{ClusterName: "c"}) {
		if found, ok := object.(T); ok && object.GetName() == name {
			return found
		}
	}
	t.Fatalf("there is no %s", name)
	panic("unreachable")
}

// filledIn is what an API server and the cluster's own programs make of the Deployment.
func filledIn(d *appsv1.Deployment) {
	d.Generation, d.ResourceVersion, d.Status.Replicas = 3, "7", 1
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, "deployment.kubernetes.io/revision", "3")
	metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, "kubectl.kubernetes.io/restartedAt", "now")
	d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds = ptr.To[int32](10), ptr.To[int32](600)
	pod := &d.Spec.Template.Spec
	pod.RestartPolicy, pod.DNSPolicy, pod.SchedulerName, pod.DeprecatedServiceAccount = "Always", "ClusterFirst", "default-scheduler", pod.ServiceAccountName
	pod.Tolerations = []corev1.Toleration{{Key: "edge", Operator: "Exists"}}
	pod.NodeSelector, pod.ImagePullSecrets = map[string]string{"pool": "agents"}, []corev1.LocalObjectReference{{Name: "mirror"}}
	c := &pod.Containers[0]
	c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy = "/dev/termination-log", "File", "IfNotPresent"
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		p.TimeoutSeconds, p.SuccessThreshold, p.FailureThreshold, p.HTTPGet.Scheme = 1, 1, 3, "HTTP"
	}
}

const inPod = "spec.template.spec."

// Whatever decides what runs as the agent, with which rights and connected to what, is an
// addition when nobody has configured it, and goes.
func TestAdditionsToTheDeployment(t *testing.T) {
	const agent = inPod + "containers[klusterlet-agent]."
	type change = func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container)
	for path, add := range map[string]change{
		inPod + "containers[evil]": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.Containers = append([]corev1.Container{{Name: "evil", Image: "x"}}, p.Containers...)
		},
		inPod + "initContainers[evil]": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.InitContainers = []corev1.Container{{Name: "evil", Image: "x"}}
		},
		inPod + "volumes[host]": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		},
		inPod + "volumes[bootstrap].hostPath": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		},
		inPod + "hostNetwork": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.HostNetwork = true },
		inPod + "hostPID":     func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.HostPID = true },
		inPod + "hostIPC":     func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.HostIPC = true },
		inPod + "shareProcessNamespace": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.ShareProcessNamespace = ptr.To(true)
		},
		inPod + "hostAliases": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4"}}
		},
		inPod + "dnsPolicy": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.DNSPolicy = "None" },
		inPod + "dnsConfig": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"1.2.3.4"}}
		},
		inPod + "schedulerName":    func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.SchedulerName = "mine" },
		inPod + "runtimeClassName": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.RuntimeClassName = ptr.To("x") },
		inPod + "automountServiceAccountToken": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.AutomountServiceAccountToken = ptr.To(false)
		},
		inPod + "securityContext.supplementalGroups": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext.SupplementalGroups = []int64{0}
		},
		inPod + "readinessGates": func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}}
		},
		agent + "env[HTTPS_PROXY]": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://evil:3128"}}
		},
		agent + "envFrom": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{Prefix: "X"}}
		},
		agent + "lifecycle": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
		},
		agent + "startupProbe": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.StartupProbe = &corev1.Probe{PeriodSeconds: 1}
		},
		agent + "livenessProbe.exec": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.LivenessProbe.Exec = &corev1.ExecAction{Command: []string{"x"}}
		},
		agent + "livenessProbe.initialDelaySeconds": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.LivenessProbe.InitialDelaySeconds = 9
		},
		agent + "volumeMounts[/host]": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "host", MountPath: "/host"})
		},
		agent + "volumeMounts[/spoke/bootstrap].subPath": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.VolumeMounts[0].SubPath = "x" },
		agent + "securityContext.capabilities.add": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		},
		agent + "securityContext.procMount": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.ProcMount = ptr.To(corev1.UnmaskedProcMount)
		},
		agent + "terminationMessagePath": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.TerminationMessagePath = "/token"
		},
		agent + "imagePullPolicy": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.ImagePullPolicy = "Never" },
		agent + "workingDir":      func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.WorkingDir = "/x" },
		agent + "ports[22]": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 22})
		},
		agent + "ports[8000].hostPort": func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) { c.Ports[0].HostPort = 8000 },
		"spec.paused":                  func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) { d.Spec.Paused = true },
		"spec.minReadySeconds":         func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) { d.Spec.MinReadySeconds = 3600 },
		"spec.template.metadata.labels.sidecar.istio.io/inject": func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) {
			d.Spec.Template.Labels["sidecar.istio.io/inject"] = "true"
		},
		"spec.template.metadata.annotations.example.com/inject": func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) {
			d.Spec.Template.Annotations["example.com/inject"] = "evil"
		},
	} {
		t.Run(path, func(t *testing.T) {
			wanted := renderedAs[*appsv1.Deployment](t, klusterlet.Name)
			wanted.Spec.Template.Annotations = map[string]string{"ours": "x"}
			live := wanted.DeepCopy()
			filledIn(live)
			asFilledIn := live.DeepCopy()
			if added, err := klusterlet.Additions(wanted, live); err != nil || len(added) > 0 {
				t.Fatalf("what the server fills in counts: %q, %v", added, err)
			}
			add(live, &live.Spec.Template.Spec, &live.Spec.Template.Spec.Containers[0])
			added, err := klusterlet.Additions(wanted, live)
			if err != nil || !slices.Equal(added, []string{path}) {
				t.Fatalf("got %q, %v", added, err)
			}
			restored, removed, err := klusterlet.Restored(wanted, live)
			if err != nil || !slices.Equal(removed, []string{path}) {
				t.Fatalf("removed %q, %v", removed, err)
			}
			got := restored.(*appsv1.Deployment)
			if again, _ := klusterlet.Additions(wanted, got); len(again) > 0 || got.ResourceVersion != "7" {
				t.Errorf("left are %q", again)
			}
			// What is gone is filled in again.
			filledIn(got)
			if !equality.Semantic.DeepEqual(got.Spec, asFilledIn.Spec) {
				t.Errorf("restored is\n%+v, want\n%+v", got.Spec, asFilledIn.Spec)
			}
		})
	}
}

// A pod whose only container is another one gets the agent's back.
func TestAdditionsThatTakeTheAgentsPlace(t *testing.T) {
	wanted := renderedAs[*appsv1.Deployment](t, klusterlet.Name)
	live := wanted.DeepCopy()
	live.Spec.Template.Spec.Containers[0].Name = "evil"
	restored, removed, err := klusterlet.Restored(wanted, live)
	if err != nil || len(removed) != 1 {
		t.Fatal(removed, err)
	}
	if c := restored.(*appsv1.Deployment).Spec.Template.Spec.Containers; len(c) != 1 || c[0].Name != klusterlet.Name {
		t.Errorf("the containers are %+v", c)
	}
}

func TestAdditionsToRightsAndAccounts(t *testing.T) {
	role := renderedAs[*rbacv1.ClusterRole](t, klusterlet.RegistrationRole)
	live := role.DeepCopy()
	live.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"x": "y"}}}}
	if added, err := klusterlet.Additions(role, live); err != nil || !slices.Equal(added, []string{"aggregationRule"}) {
		t.Errorf("got %q, %v", added, err)
	}
	account := renderedAs[*corev1.ServiceAccount](t, klusterlet.ServiceAccount)
	of := account.DeepCopy()
	of.Secrets, of.ImagePullSecrets = []corev1.ObjectReference{{Name: "dockercfg"}}, []corev1.LocalObjectReference{{Name: "dockercfg"}}
	if added, err := klusterlet.Additions(account, of); err != nil || len(added) > 0 {
		t.Errorf("what the cluster adds to service accounts counts: %q, %v", added, err)
	}
	of.AutomountServiceAccountToken = ptr.To(false)
	if added, err := klusterlet.Additions(account, of); err != nil || !slices.Equal(added, []string{"automountServiceAccountToken"}) {
		t.Errorf("got %q, %v", added, err)
	}
}
