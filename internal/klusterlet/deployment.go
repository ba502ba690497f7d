package klusterlet

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

const (
	bootstrapVolume = "bootstrap"
	bootstrapDir    = "/spoke/bootstrap"

	healthPort     = 8000
	healthPortName = "health"

	// nonRoot is the user of the image, and of every distroless one.
	nonRoot = 65532
)

func (o *Options) deployment() *appsv1.Deployment {
	meta := o.meta(o.Namespace, Name)
	meta.Labels = o.labels()
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: Name}},
			// The agent from before goes on until the next one runs: an image that
			// can't be pulled must not take the cluster out of the fleet. For the
			// moment in which there are two, both write what the cluster is like,
			// and a write that comes too late is a conflict.
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: ptr.To(intstr.FromInt32(0)),
					MaxSurge:       ptr.To(intstr.FromInt32(1)),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: o.labels()},
				Spec:       o.podSpec(),
			},
		},
	}
}

func (o *Options) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName:            ServiceAccount,
		TerminationGracePeriodSeconds: ptr.To[int64](10), // the agent drains within 5
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(true),
			RunAsUser:      ptr.To[int64](nonRoot),
			RunAsGroup:     ptr.To[int64](nonRoot),
			FSGroup:        ptr.To[int64](nonRoot), // so that it may read the mounted Secret
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: []corev1.Volume{{
			Name: bootstrapVolume,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName:  cluster.BootstrapSecret,
				DefaultMode: ptr.To[int32](0o440),
				// An agent that has joined carries on when the Secret is gone;
				// one that has not says what it lacks.
				Optional: ptr.To(true),
			}},
		}},
		Containers: []corev1.Container{{
			Name:    Name,
			Image:   o.Image,
			Command: []string{"/muster"},
			Args:    o.args(),
			Ports:   []corev1.ContainerPort{{Name: healthPortName, ContainerPort: healthPort, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("10m"),
					corev1.ResourceMemory: resource.MustParse("64Mi"),
				},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			LivenessProbe:  probe("/livez", 10),
			ReadinessProbe: probe("/readyz", 2),
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false),
				Privileged:               ptr.To(false),
				ReadOnlyRootFilesystem:   ptr.To(true),
				RunAsNonRoot:             ptr.To(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: bootstrapVolume, MountPath: bootstrapDir, ReadOnly: true}},
		}},
	}
}

func (o *Options) args() []string {
	return append([]string{
		"agent",
		"--cluster-name=" + o.ClusterName,
		"--namespace=" + o.Namespace,
		"--bootstrap-kubeconfig=" + bootstrapDir + "/" + cluster.KubeconfigKey,
		"--health-address=:" + strconv.Itoa(healthPort),
	}, o.Args...)
}

func probe(path string, seconds int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(healthPortName)}},
		PeriodSeconds: seconds,
	}
}
