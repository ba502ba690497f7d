package hub

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// DescribeDeletion tells what keeps an object whose deletion has been asked for; of a
// namespace also what it says itself.
func DescribeDeletion(obj metav1.Object, now time.Time) string {
	if obj.GetDeletionTimestamp() == nil {
		return "  Its deletion has not begun."
	}
	lines := []string{fmt.Sprintf("  Its deletion was asked for %s ago.",
		duration.HumanDuration(now.Sub(obj.GetDeletionTimestamp().Time)))}
	for _, finalizer := range obj.GetFinalizers() {
		lines = append(lines, fmt.Sprintf("  Finalizer %s%s", finalizer, finalizerOwner(obj, finalizer)))
	}
	namespace, ok := obj.(*corev1.Namespace)
	if !ok {
		return attribute.JoinLines(lines)
	}
	for _, finalizer := range namespace.Spec.Finalizers {
		if finalizer != corev1.FinalizerKubernetes {
			lines = append(lines, "  Finalizer "+string(finalizer)+" in its spec: the one who set it has to act first")
		}
	}
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			age := duration.HumanDuration(now.Sub(c.LastTransitionTime.Time))
			lines = append(lines, fmt.Sprintf("  %s (%s, for %s): %s", c.Type, c.Reason, age, c.Message))
		}
	}
	return attribute.JoinLines(lines)
}

// finalizerOwner describes the component that removes a finalizer.
func finalizerOwner(obj metav1.Object, finalizer string) string {
	if text := fleetFinalizer(finalizer); text != "" {
		return text
	}
	return setBy(obj, finalizer) + ": the one who set it has to remove it first"
}

// HeldByOthers are the finalizers of an object that no part of the fleet has set.
func HeldByOthers(obj metav1.Object) []string {
	return slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return fleetFinalizer(f) != "" })
}

// HeldByOthersOnly reports whether nothing of the fleet keeps an object any more that is
// being deleted, but somebody else does.
func HeldByOthersOnly(obj metav1.Object) bool {
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) > 0 &&
		len(HeldByOthers(obj)) == len(obj.GetFinalizers())
}

// ReleaseByOthers says what to do about an object that somebody else's finalizer keeps;
// empty where none does. resource is the object's in a command, such as manifestwork.
func ReleaseByOthers(obj metav1.Object, resource string) string {
	others := HeldByOthers(obj)
	if len(others) == 0 || obj.GetDeletionTimestamp() == nil {
		return ""
	}
	for i, finalizer := range others {
		others[i] = finalizer + setBy(obj, finalizer)
	}
	at := resource + " " + obj.GetName()
	if obj.GetNamespace() != "" {
		at = resource + " -n " + obj.GetNamespace() + " " + obj.GetName()
	}
	return fmt.Sprintf("Repair the controller of %s: it has to finish and take its finalizer off. Then apply again. "+
		"If that controller is gone for good, take its finalizer off, and leave the others in place:\n  kubectl "+
		"edit %s",
		strings.Join(others, " and of "), at)
}

// fleetFinalizer describes the part of the fleet that removes a finalizer; empty for
// finalizers of others.
func fleetFinalizer(finalizer string) string {
	switch finalizer {
	case cluster.APIResourceCleanupFinalizer:
		return ": the hub's cluster controller waits until no manifest work is left in the cluster's namespace"
	case cluster.ResourceCleanupFinalizer:
		return ": the hub deletes the cluster's add-ons and works first"
	case work.ManifestWorkFinalizer:
		return ": the cluster's agent removes the objects from the cluster first; it has to be running and connected"
	case work.ReplicaSetFinalizer:
		return ": the hub deletes the set's works first, and with the policy Foreground waits until they are gone"
	case muster.AccessFinalizer:
		return ": the hub withdraws access in the clusters first; their agents have to be running and connected"
	case muster.ImportFinalizer:
		return ": the hub revokes the import's token and deletes its kubeconfig first; it does so while its feature " +
			"gate ClusterImport is on"
	case addon.PreDeleteFinalizer:
		return ": the add-on's jobs have to complete in the cluster first; its agent has to be running and connected"
	case addon.HostingPreDeleteFinalizer:
		return ": the add-on's jobs have to complete in the hosting cluster first; the agent there has to be running " +
			"and connected"
	case addon.HostingManifestsFinalizer:
		return ": the hub removes the add-on's works from the hosting cluster first"
	case work.AppliedManifestWorkFinalizer:
		return ": the cluster's agent deletes the objects that it applied first; it has to be running"
	}
	return ""
}

// setBy names the field managers that own a finalizer; empty when the server does not
// tell.
func setBy(obj metav1.Object, finalizer string) string {
	var managers []string
	for _, entry := range obj.GetManagedFields() {
		var fields struct {
			Metadata struct {
				Finalizers map[string]any `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		// The elements of a set are keyed by their values, in JSON.
		if _, owns := fields.Metadata.Finalizers[fmt.Sprintf("v:%q", finalizer)]; owns &&
			!slices.Contains(managers, strconv.Quote(entry.Manager)) {
			managers = append(managers, strconv.Quote(entry.Manager))
		}
	}
	if len(managers) == 0 {
		return ""
	}
	slices.Sort(managers)
	return ", set by " + strings.Join(managers, " and ")
}
