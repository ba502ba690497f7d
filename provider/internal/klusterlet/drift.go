package klusterlet

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// How an object in the cluster is compared with the one that the agent needs: by
// what the provider sets in it, and by what was added that nobody has configured
// (klusterlet.Additions).

// drift says in what an object is not as it should be; empty when it is. fields of
// the bootstrap Secret are only compared when the provider has written it.
func drift(wanted, live kube.Object) string {
	if live.GetDeletionTimestamp() != nil {
		return "is being deleted"
	}
	if secret, ok := live.(*corev1.Secret); ok {
		return secretDrift(wanted.(*corev1.Secret), secret)
	}
	if deployment, ok := wanted.(*appsv1.Deployment); ok {
		// Agents from before it was put there don't have it.
		bare := deployment.DeepCopy()
		delete(bare.Annotations, muster.InstalledByAnnotation)
		wanted = bare
	}
	was, errLive := klusterlet.Fields(live)
	is, err := klusterlet.Fields(wanted)
	if err != nil || errLive != nil {
		return "can't be compared"
	}
	for _, key := range []string{"apiVersion", "kind", "status"} { // not in what a client reads, or not ours
		delete(is, key)
	}
	if at := difference("", is, was); at != "" {
		return at + " was changed"
	}
	return ""
}

// secretDrift compares the Secret with the bootstrap kubeconfig, whose content
// nobody remembers: it has to be a kubeconfig, and still the one that was written.
func secretDrift(wanted, live *corev1.Secret) string {
	if !usable(live) {
		return "holds no bootstrap kubeconfig"
	}
	for key, value := range wanted.Annotations {
		if live.Annotations[key] != value {
			return "metadata.annotations." + key + " was changed"
		}
	}
	if !ours(live) {
		return "data." + cluster.KubeconfigKey + " was changed"
	}
	return ""
}

// additions are what was added to an object of the agent, each in words.
func additions(wanted, live kube.Object) (added []string) {
	paths, err := klusterlet.Additions(wanted, live)
	if err != nil {
		return []string{err.Error()}
	}
	for _, at := range paths {
		added = append(added, at+" was added")
	}
	return added
}

// usable reports whether the Secret has a kubeconfig that leads somewhere.
func usable(secret *corev1.Secret) bool {
	return endpointOf(secret.Data[cluster.KubeconfigKey]).Server != ""
}

// ours reports whether the provider is the one who wrote the bootstrap kubeconfig
// last, or the agent itself, which lets it follow a hub that has moved.
func ours(secret *corev1.Secret) bool {
	return wroteKubeconfig(secret, hub.FieldManager, metav1.ManagedFieldsOperationApply) ||
		wroteKubeconfig(secret, muster.AgentFieldManager, metav1.ManagedFieldsOperationUpdate)
}

// wroteKubeconfig reports whether the kubeconfig in a Secret is what this manager
// has written in this way.
func wroteKubeconfig(secret *corev1.Secret, manager string, operation metav1.ManagedFieldsOperationType) bool {
	for _, entry := range secret.ManagedFields {
		if entry.Manager != manager || entry.Operation != operation || entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Data map[string]any `json:"f:data"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned) == nil {
			if _, found := owned.Data["f:"+cluster.KubeconfigKey]; found {
				return true
			}
		}
	}
	return false
}

// difference is the path of the first field that is set in wanted and not the same
// in live; empty when there is none.
func difference(at string, wanted, live any) string {
	switch w := wanted.(type) {
	case nil:
		return ""
	case map[string]any:
		l, exists := live.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(w)) {
			found := difference(strings.TrimPrefix(at+"."+key, "."), w[key], l[key])
			if found != "" && !exists {
				return at
			}
			if found != "" {
				return found
			}
		}
		return ""
	case []any:
		if key := klusterlet.ListKey(at); key != "" {
			return elementDifference(at, key, w, live)
		}
	}
	if !reflect.DeepEqual(wanted, live) {
		return at
	}
	return ""
}

// elementDifference compares the elements of a list that have the same key.
func elementDifference(at, key string, wanted []any, live any) string {
	elements, _ := live.([]any)
	for _, w := range wanted {
		name := w.(map[string]any)[key]
		var same any
		for _, l := range elements {
			if l, ok := l.(map[string]any); ok && reflect.DeepEqual(l[key], name) {
				same = l
			}
		}
		if found := difference(fmt.Sprintf("%s[%v]", at, name), w, same); found != "" {
			return found
		}
	}
	return ""
}
