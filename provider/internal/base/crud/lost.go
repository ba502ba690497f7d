package crud

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// When a cluster is gone for good and somebody has said so, the finalizers that only
// its agent removes are removed in the agent's place.

// IsLost reports whether a cluster is given up: its ManagedCluster has the annotation
// muster.GoneAnnotation, and the hub does not hear from its agent.
func IsLost(mc *clusterv1.ManagedCluster) bool {
	return mc.Annotations[muster.GoneAnnotation] == "true" && SilenceOf(mc) != ""
}

// SilenceOf says why nothing is to be expected of a cluster's agent now; "" when the hub
// hears from it.
func SilenceOf(mc *clusterv1.ManagedCluster) string {
	available := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
	switch {
	case !mc.Spec.AcceptsClient():
		return "the hub does not accept the cluster, so its agent has no rights"
	case available == nil:
		return "the cluster has not joined"
	case available.Status == metav1.ConditionTrue:
		return ""
	}
	return fmt.Sprintf("the hub has not heard from its agent since %s", available.LastTransitionTime.UTC().Format(
		"2006-01-02 15:04:05 MST"))
}

// LostClusters reads the ManagedClusters that are given up: of one, or of all when name is "".
func LostClusters(ctx context.Context, client *kube.Client, name string) ([]*clusterv1.ManagedCluster, error) {
	var all []*clusterv1.ManagedCluster
	if name != "" {
		mc := &clusterv1.ManagedCluster{}
		if err := client.Get(ctx, mc, "", name); err != nil {
			return nil, err
		}
		all = append(all, mc)
	} else {
		list := &clusterv1.ManagedClusterList{}
		if err := client.List(ctx, list, kube.ListOptions{}); err != nil {
			return nil, err
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return slices.DeleteFunc(all, func(mc *clusterv1.ManagedCluster) bool { return !IsLost(mc) }), nil
}

// Going says what is being deleted.
type Going struct {
	// Cluster is where; "" is every cluster.
	Cluster string
	// Works and AddOns select what goes; nil is nothing.
	Works  func(*workv1.ManifestWork) bool
	AddOns func(*addonv1alpha1.ManagedClusterAddOn) bool
}

// EverythingIn is all that a cluster has.
func EverythingIn(name string) Going {
	return Going{
		Cluster: name,
		Works:   func(*workv1.ManifestWork) bool { return true },
		AddOns:  func(*addonv1alpha1.ManagedClusterAddOn) bool { return true },
	}
}

// ReleaseLost removes the finalizers of what is going from clusters that are given up, as
// soon as its deletion has begun, until stop is called. stop looks once more, as what was
// waited for may go before its works, and warns of what stays in the clusters. What can't
// be read or written is left to the wait beside which this runs.
func ReleaseLost(ctx context.Context, client *kube.Client, going Going) (stop func(diags *diag.Diagnostics)) {
	watching, cancel := context.WithCancel(ctx)
	r := &lostRelease{client: client, going: going, left: map[string][]string{}}
	var clusters []*clusterv1.ManagedCluster
	var asking, running sync.WaitGroup
	asking.Go(func() {
		asked, done := context.WithTimeout(ctx, hub.ReadBudget)
		defer done()
		clusters, _ = LostClusters(asked, client, going.Cluster)
		for _, mc := range clusters {
			running.Go(func() { r.works(ctx, watching, mc.Name, false) })
			running.Go(func() { r.addOns(ctx, watching, mc.Name, false) })
		}
	})
	return func(diags *diag.Diagnostics) {
		asking.Wait()
		cancel()
		running.Wait()
		for _, mc := range clusters {
			r.works(ctx, ctx, mc.Name, true)
			r.addOns(ctx, ctx, mc.Name, true)
		}
		r.warn(diags)
	}
}

// lostRelease removes finalizers, and remembers what stays in clusters.
type lostRelease struct {
	client *kube.Client
	going  Going

	mu   sync.Mutex
	left map[string][]string // works, by cluster
}

// works lets works of a cluster go: once, or until watching ends. A write that has begun
// then is finished: what it lets go has to be in the warning.
func (r *lostRelease) works(ctx, watching context.Context, name string, once bool) {
	if r.going.Works == nil {
		return
	}
	list, kind, here := &workv1.ManifestWorkList{}, &workv1.ManifestWork{}, kube.ListOptions{Namespace: name}
	_ = r.client.WaitObjects(watching, list, kind, here, func(all map[string]kube.Object) (bool, error) {
		for _, object := range all {
			w, ok := object.(*workv1.ManifestWork)
			if !ok || w.DeletionTimestamp == nil || !r.going.Works(w) {
				continue
			}
			if RemoveFinalizers(ctx, r.client, w, &workv1.ManifestWork{}, work.ManifestWorkFinalizer) == nil {
				r.mu.Lock()
				r.left[w.Namespace] = append(r.left[w.Namespace], w.Name)
				r.mu.Unlock()
			}
		}
		return once, nil
	})
}

// addOns lets add-ons of a cluster go: once, or until watching ends.
func (r *lostRelease) addOns(ctx, watching context.Context, name string, once bool) {
	if r.going.AddOns == nil {
		return
	}
	list, kind := &addonv1alpha1.ManagedClusterAddOnList{}, &addonv1alpha1.ManagedClusterAddOn{}
	here := kube.ListOptions{Namespace: name}
	_ = r.client.WaitObjects(watching, list, kind, here, func(all map[string]kube.Object) (bool, error) {
		for _, object := range all {
			if a, ok := object.(*addonv1alpha1.ManagedClusterAddOn); ok && a.DeletionTimestamp != nil &&
				r.going.AddOns(a) {
				// The next event tries again.
				_ = RemoveFinalizers(ctx, r.client, a, &addonv1alpha1.ManagedClusterAddOn{}, a.Finalizers...)
			}
		}
		return once, nil
	})
}

func (r *lostRelease) warn(diags *diag.Diagnostics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, works := range r.left {
		slices.Sort(works)
		diags.AddWarning(fmt.Sprintf("Objects are left in the cluster %q, which is given up", name),
			fmt.Sprintf("These works went without the cluster's agent, so nothing removes what they have made there: "+
				"%s.\n\n"+
				"If the cluster still exists, remove from it these objects, the agent (kubectl delete namespace %s) "+
				"and the agent's records (kubectl get appliedmanifestworks; they carry the finalizer %s).",
				strings.Join(slices.Compact(works), ", "), cluster.AgentNamespace, work.AppliedManifestWorkFinalizer))
	}
}

// errNotThere is the answer about finalizers that an object does not have.
var errNotThere = apierrors.NewConflict(workv1.GroupVersion.WithResource("manifestworks").GroupResource(), "",
	fmt.Errorf(
		"it has no such finalizer"))

// RemoveFinalizers removes finalizers from an object that is as it was read. It fails when the
// object has none of them.
func RemoveFinalizers(ctx context.Context, client *kube.Client, object, empty kube.Object, finalizers ...string) error {
	kept := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(finalizer string) bool {
		return slices.Contains(finalizers, finalizer)
	})
	if len(kept) == len(object.GetFinalizers()) {
		return errNotThere
	}
	empty.SetNamespace(object.GetNamespace())
	empty.SetName(object.GetName())
	return client.MergePatch(ctx, empty, hub.FieldManager, map[string]any{
		"metadata": map[string]any{"resourceVersion": object.GetResourceVersion(), "finalizers": kept},
	})
}

// WarnOfLostCluster warns in a plan that a deletion in a cluster will wait for an agent of
// which nothing is heard.
func WarnOfLostCluster(ctx context.Context, client *kube.Client, name, what string, diags *diag.Diagnostics) {
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	mc := &clusterv1.ManagedCluster{}
	if err := client.Get(ctx, mc, "", name); err != nil || IsLost(mc) {
		return
	}
	silence := SilenceOf(mc)
	if silence == "" || mc.Spec.AcceptsClient() &&
		meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionJoined) == nil {
		return // of a cluster that never joined, no agent has anything
	}
	diags.AddWarning(fmt.Sprintf("The removal of %s will wait for the agent of cluster %q", what, name),
		fmt.Sprintf("Only the agent removes objects from the cluster, and %s. The apply waits for it until its "+
			"timeout.\n\n%s", silence, LostAdvice(name)))
}

// LostAdvice is what to do about a cluster that is gone for good.
func LostAdvice(name string) string {
	return fmt.Sprintf("Is the cluster gone for good? Then set gone = true in its muster_managed_cluster and apply, "+
		"before you remove anything of it; or run\n  muster detach %s --force", name)
}
