package klusterlet

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
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
	if o.InstalledBy != "" {
		meta.Annotations = map[string]string{muster.InstalledByAnnotation: o.InstalledBy}
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: Name}},
			Strategy: o.strategy(),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: o.labels(), Annotations: maps.Clone(o.Annotations)},
				Spec:       o.podSpec(),
			},
		},
	}
}

// strategy lets the agent from before go on until the next one runs: an image that
// can't be pulled must not take the cluster out of the fleet. For the moment in
// which there are two, both write what the cluster is like, and a write that comes
// too late is a conflict. In the node's network two would want the same port, and
// with one node the second could never start, so there the first one goes before.
func (o *Options) strategy() appsv1.DeploymentStrategy {
	unavailable, surge := intstr.FromInt32(0), intstr.FromInt32(1)
	if o.HostNetwork {
		unavailable, surge = surge, unavailable
	}
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable, MaxSurge: &surge},
	}
}

func (o *Options) podSpec() corev1.PodSpec {
	spec := corev1.PodSpec{
		ImagePullSecrets:              slices.Clone(o.ImagePullSecrets),
		Tolerations:                   slices.Clone(o.Tolerations),
		NodeSelector:                  maps.Clone(o.NodeSelector),
		Affinity:                      o.Affinity.DeepCopy(),
		HostNetwork:                   o.HostNetwork,
		PriorityClassName:             o.PriorityClassName,
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
		Containers: []corev1.Container{o.container()},
	}
	if o.HostNetwork {
		spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	return spec
}

func (o *Options) container() corev1.Container {
	port := corev1.ContainerPort{Name: healthPortName, ContainerPort: healthPort, Protocol: corev1.ProtocolTCP}
	if o.HostNetwork {
		port.HostPort = healthPort
	}
	return corev1.Container{
		Name:            Name,
		Image:           o.Image,
		ImagePullPolicy: o.ImagePullPolicy,
		Command:         []string{"/muster"},
		Args:            o.args(),
		Env:             o.env(),
		Ports:           []corev1.ContainerPort{port},
		Resources:       o.resources(),
		LivenessProbe:   probe("/livez", 10),
		ReadinessProbe:  probe("/readyz", 2),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			Privileged:               ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			RunAsNonRoot:             ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: bootstrapVolume, MountPath: bootstrapDir, ReadOnly: true}},
	}
}

func (o *Options) resources() corev1.ResourceRequirements {
	if o.Resources != nil {
		return *o.Resources.DeepCopy()
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("64Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
}

func (o *Options) args() []string {
	args := []string{"agent"}
	switch {
	case o.ClusterName != "":
		args = append(args, "--cluster-name="+o.ClusterName)
	case o.ClientID != "":
		args = append(args, "--client-id="+o.ClientID)
	}
	args = append(args,
		"--namespace="+o.Namespace,
		"--bootstrap-kubeconfig="+bootstrapDir+"/"+cluster.KubeconfigKey,
		"--health-address=:"+strconv.Itoa(healthPort),
	)
	if o.UserAccess {
		args = append(args, "--"+userAccessFlag)
	}
	if o.Tunnels {
		args = append(args, "--"+tunnelsFlag)
	}
	return append(args, o.Args...)
}

func probe(path string, seconds int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(healthPortName)}},
		PeriodSeconds: seconds,
	}
}

const (
	noProxy = "NO_PROXY"
	// ownServer is the cluster's API server as pods know it. The kubelet puts the
	// address in.
	ownServer = "$(KUBERNETES_SERVICE_HOST)"
)

// isProxy reports whether an environment variable names a proxy.
func isProxy(name string) bool {
	return slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY"}, strings.ToUpper(name))
}

// badProxy says what is wrong with the address of a proxy; empty when nothing is. Go
// takes what it can't read for no proxy, without a word.
func badProxy(address string) string {
	if address == "" {
		return ""
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	switch u, err := url.Parse(address); {
	case err != nil || u.Host == "":
		return "is not a URL"
	case !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme):
		return fmt.Sprintf("has the scheme %q, which no proxy has", u.Scheme)
	}
	return ""
}

// env are the container's environment variables. An agent with a proxy on the way to
// its hub reaches its own API server directly, without anybody having to think of it.
func (o *Options) env() []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, variable := range o.Env {
		env = append(env, corev1.EnvVar{Name: variable.Name, Value: variable.Value})
	}
	if !slices.ContainsFunc(o.Env, func(v v1alpha1.EnvVar) bool { return isProxy(v.Name) && v.Value != "" }) {
		return env
	}
	exempt := false
	for i := range env {
		if strings.ToUpper(env[i].Name) != noProxy {
			continue
		}
		exempt = true
		env[i].Value = withOwnServer(env[i].Value)
	}
	if !exempt {
		env = append(env, corev1.EnvVar{Name: noProxy, Value: withOwnServer("")})
	}
	return env
}

// withOwnServer adds the cluster's own API server to a list of what is reached without
// a proxy.
func withOwnServer(list string) string {
	entries := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(entries, "*") || slices.Contains(entries, ownServer) {
		return list
	}
	return strings.Join(append(entries, ownServer), ",")
}
