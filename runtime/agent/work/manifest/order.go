package manifest

import (
	"cmp"
	"slices"
)

// rank is the place of a kind in the order in which manifests are applied:
// what others live in or depend on comes first. The group does not count. The
// order is that of upstream's agent, which no library has: those of Flux and
// cli-utils are others.
func rank(kind string) int {
	switch kind {
	case "PriorityClass", "Namespace", "CustomResourceDefinition", "StorageClass", "PersistentVolume",
		"PodSecurityPolicy":
		return 0
	case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
		return 1
	case "NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount":
		return 2
	case "Secret", "ConfigMap", "PersistentVolumeClaim":
		return 3
	case "Service":
		return 4
	case "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler",
		"StatefulSet", "Job", "CronJob":
		return 5
	case "APIService", "MutatingWebhookConfiguration",
		"ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return 6
	case "":
		return 1001 // what could not be read
	}
	return 1000
}

// Batches are the manifests in the order in which to apply them, as indices;
// those of a batch may be applied at once.
func Batches(manifests []*Manifest) [][]int {
	order := make([]int, len(manifests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(rank(manifests[a].Meta.Kind), rank(manifests[b].Meta.Kind))
	})
	var out [][]int
	for _, i := range order {
		if n := len(out); n > 0 && rank(manifests[out[n-1][0]].Meta.Kind) == rank(manifests[i].Meta.Kind) {
			out[n-1] = append(out[n-1], i)
		} else {
			out = append(out, []int{i})
		}
	}
	return out
}
