package devcluster

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
)

// agentContainer finds the container of a pod that runs `muster agent`, and the
// arguments that follow these two words. ok is false for a pod of another kind.
func agentContainer(pod *corev1.Pod) (c corev1.Container, args []string, ok bool) {
	if pod.Labels[klusterlet.AppLabel] != klusterlet.Name || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return corev1.Container{}, nil, false
	}
	for _, c := range pod.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		if len(c.Command) == 0 { // then it is the image's
			words = append([]string{"muster"}, words...)
		}
		if len(words) > 1 && path.Base(words[0]) == "muster" && words[1] == "agent" {
			return c, words[2:], true
		}
	}
	return corev1.Container{}, nil, false
}

// secretVolume is a Secret that a pod mounts.
type secretVolume struct {
	name     string // of the volume
	secret   string
	items    []corev1.KeyToPath // all keys under their own names when empty
	optional bool
}

// mountedSecrets are the Secrets in a container's files, in the pod's order.
func mountedSecrets(pod *corev1.Pod, c corev1.Container) []secretVolume {
	var volumes []secretVolume
	for _, v := range pod.Spec.Volumes {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		if v.Secret == nil || !mounted {
			continue
		}
		volumes = append(volumes, secretVolume{v.Name, v.Secret.SecretName, v.Secret.Items, ptr.Deref(v.Secret.Optional, false)})
	}
	return volumes
}

// files are the contents of the volume by path below its folder. missing is the
// first key that was asked for by name and is not there.
func (v secretVolume) files(data map[string][]byte) (files map[string][]byte, missing string) {
	if len(v.items) == 0 {
		return data, ""
	}
	files = map[string][]byte{}
	for _, item := range v.items {
		content, ok := data[item.Key]
		if !ok && !v.optional {
			return nil, item.Key
		}
		if ok {
			files[item.Path] = content
		}
	}
	return files, ""
}

// mapPaths replaces, in arguments such as /spoke/bootstrap/kubeconfig and
// --flag=/spoke/bootstrap/kubeconfig, the path at which the container mounts a
// volume by the volume's folder below dir.
func mapPaths(args []string, mounts []corev1.VolumeMount, dir string) []string {
	// The deepest mount is the one that a path is in.
	mounts = slices.Clone(mounts)
	slices.SortStableFunc(mounts, func(a, b corev1.VolumeMount) int { return len(b.MountPath) - len(a.MountPath) })
	mapped := make([]string, len(args))
	for i, arg := range args {
		flag, value := "", arg
		if strings.HasPrefix(arg, "-") {
			if name, v, ok := strings.Cut(arg, "="); ok {
				flag, value = name+"=", v
			}
		}
		mapped[i] = flag + mapPath(value, mounts, dir)
	}
	return mapped
}

func mapPath(value string, mounts []corev1.VolumeMount, dir string) string {
	for _, m := range mounts {
		mount := strings.TrimSuffix(m.MountPath, "/")
		if rest, ok := strings.CutPrefix(value, mount); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(dir, m.Name, m.SubPath, rest)
		}
	}
	return value
}
