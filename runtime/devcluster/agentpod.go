package devcluster

import (
	"fmt"
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

// hostPath is where a file of a container is on this machine: in a Secret that the
// container mounts. A pod's author chooses the path, and may not get at any other
// file of this machine, so all else is refused. dir has a folder for each volume.
func hostPath(name string, mounts []corev1.VolumeMount, volumes []secretVolume, dir string) (string, error) {
	// A container's path is as seen from its root, whatever is in it.
	name = path.Clean("/" + name)
	// The deepest mount is the one that a path is in.
	mounts = slices.Clone(mounts)
	slices.SortStableFunc(mounts, func(a, b corev1.VolumeMount) int {
		return len(path.Clean(b.MountPath)) - len(path.Clean(a.MountPath))
	})
	for _, m := range mounts {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(path.Clean("/"+m.MountPath), "/"))
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		inside := filepath.Join(m.Name, m.SubPath, rest)
		isSecret := slices.ContainsFunc(volumes, func(v secretVolume) bool { return v.name == m.Name })
		if !isSecret || !filepath.IsLocal(filepath.Join(m.SubPath, "."+rest)) {
			break
		}
		return filepath.Join(dir, inside), nil
	}
	return "", fmt.Errorf("the file %s is in no Secret that the container mounts, and a dev cluster's pods have no others: mount the Secret there",
		name)
}
