package action

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/connection"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// detachCluster is muster_detach_cluster.
func detachCluster() declaration {
	return declaration{
		name: "detach_cluster",
		description: "Takes a cluster out of the fleet: deletes its ManagedCluster, and waits until its agent has " +
			"removed what its works have made, and the hub its add-ons, works and rights. " +
			"Meanwhile it names the works and add-ons that are left, and the finalizers that hold them. The agent " +
			"itself stays in the cluster: destroy its `muster_klusterlet`, or set `cluster_kubeconfig`, which " +
			"removes an agent that a `muster_cluster_import` or a person has installed.\n\n" +
			"A cluster that a `muster_managed_cluster` manages leaves with that resource: `terraform destroy`, or " +
			"removing it from the configuration. The action warns of one.",
		attributes: map[string]schema.Attribute{
			clusterName: attribute.Required("Name of the managed cluster. One that the hub no longer has, as its "+
				"namespace shows, is detached already; a name that the hub has never had is an error.",
				attribute.ValidClusterName()),
			"force": attribute.OptionalFlag("Whether to take away what only the cluster's agent can take away by " +
				"itself: the finalizers of the cluster's works and add-ons. This is for lost clusters. It begins at " +
				"once when the hub no longer hears from the agent, and else after `force_after`. **What the works " +
				"have made stays in the cluster**, and nothing will remove it; the action lists it."),
			"force_after": attribute.Optional("How long, with `force`, a cluster whose agent still reports may "+
				"clean up by itself. Defaults to `1m`.", attribute.ValidDuration(0)),
			"delete_namespace": attribute.OptionalFlag("Whether to delete the cluster's namespace on the hub as " +
				"well, with all that others have put there. Hubs keep it by default, for a cluster that comes back."),
			"cluster_kubeconfig": attribute.Optional("Path of a kubeconfig of the cluster. In the end the action "+
				"removes from there all that was installed with the agent: its Deployment, roles, bindings, Secrets "+
				"and namespaces. It lists what it leaves, and why, and can be run again. It leaves an agent of a "+
				"`muster_klusterlet`, and one that serves another name, and begins nothing while the hub imports "+
				"the cluster.", attribute.NotEmpty()),
			"cluster_context": attribute.Optional("Context in `cluster_kubeconfig`. Defaults to its current one.",
				stringvalidator.AlsoRequires(path.MatchRoot("cluster_kubeconfig"))),
		},
		takes: "all of it", timeout: attribute.DefaultDelete,
		doing: "detach managed cluster", to: []string{clusterName},
		do: func(ctx context.Context, r *run) error {
			managed, err := r.managed()
			if err != nil {
				return err
			}
			return (&detaching{run: r, managed: managed, reported: map[string]bool{}}).detach(ctx)
		},
	}
}

// managed is the cluster itself; nil without a kubeconfig of it.
func (r *run) managed() (*kube.Client, error) {
	if !r.IsSet("cluster_kubeconfig") {
		return nil, nil
	}
	kubeconfig, context := types.StringValue(r.Text("cluster_kubeconfig")), types.StringValue(r.Text("cluster_context"))
	at := connection.AtPath(kubeconfig, context).Connection()
	client, err := hub.NewClient(at, r.hub.Version, kube.DefaultRetryBudget)
	if err != nil {
		return nil, &hub.RefusalError{
			Err: err, Summary: "The connection to the cluster is not configured properly",
			Detail: "Nothing was changed. Correct cluster_kubeconfig or cluster_context: " + err.Error() + ".",
		}
	}
	return client, nil
}

// detach takes a cluster out of the fleet: it deletes the ManagedCluster, and waits
// until the agent has removed the objects of its works, and the hub the cluster's
// add-ons, works and rights.
func (d *detaching) detach(ctx context.Context) error {
	if err := d.checkLeaving(ctx); err != nil {
		return err
	}
	object := &clusterv1.ManagedCluster{}
	err := d.client.Get(ctx, object, "", d.cluster)
	if kube.IsNotFound(err, d.cluster) {
		return d.absent(ctx)
	}
	if err != nil {
		return err
	}
	if crud.OwnerMark(object) != "" {
		d.warn(fmt.Sprintf("Terraform manages managed cluster %q", d.cluster),
			"A muster_managed_cluster has created it, or taken it over. If that is still in a configuration, its "+
				"next apply creates the cluster again: remove the resource, or use terraform destroy instead.")
	}
	deletion, err := d.client.Delete(ctx, object, "", d.cluster, object.UID)
	if err != nil {
		return err
	}
	d.say("The hub is asked to let %s go.", d.cluster)
	if !deletion.Gone {
		d.see(object)
	}
	return d.finish(ctx, object, func(waiting context.Context) error {
		var err error
		if !deletion.Gone {
			err = d.looking(waiting, d.force, func(ctx context.Context) error { return d.awaitEnd(ctx, object) })
		}
		if err == nil {
			d.say("%s is no longer in the fleet.", d.cluster)
			d.warnOfLeftObjects()
		}
		return err
	})
}

// finish runs first, and then removes what is to go with the cluster.
func (d *detaching) finish(
	ctx context.Context, object *clusterv1.ManagedCluster, first func(context.Context) error,
) error {
	waiting, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := first(waiting)
	if err == nil {
		err = d.namespace(waiting)
	}
	if err == nil {
		err = d.leave(waiting)
	}
	if hub.IsTimeout(err) && ctx.Err() == nil {
		return d.tooLate(object)
	}
	return interrupted(ctx, err, fmt.Sprintf("Managed cluster %q is being deleted, which nobody waits for any more. "+
		"Run the same again to follow it.", d.cluster))
}

// detaching is the departure of one cluster.
type detaching struct {
	*run
	// managed is the cluster itself, from which the agent is removed in the end, with all
	// that was installed with it. Nil leaves the agent there.
	managed *kube.Client

	mu     sync.Mutex
	silent bool // the hub does not hear from the agent
	works  []*workv1.ManifestWork
	addOns []*addonv1alpha1.ManagedClusterAddOn
	// left are the objects that stay in the cluster, and reported the errors of force, which
	// runs in one goroutine.
	left     []string
	reported map[string]bool
}

// awaitEnd follows the cluster until it is gone, and reports what it waits for.
func (d *detaching) awaitEnd(ctx context.Context, object *clusterv1.ManagedCluster) error {
	uid := object.UID
	following, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	here := kube.ListOptions{Namespace: d.cluster}
	running.Go(func() {
		_ = d.client.WaitObjects(following, &workv1.ManifestWorkList{}, &workv1.ManifestWork{}, here, d.seeWorks)
	})
	running.Go(func() {
		_ = d.client.WaitObjects(following, &addonv1alpha1.ManagedClusterAddOnList{},
			&addonv1alpha1.ManagedClusterAddOn{}, here, d.seeAddOns)
	})
	return d.client.Wait(ctx, object, "", d.cluster, func(exists bool) (bool, error) {
		if !exists || object.UID != uid {
			return true, nil
		}
		d.see(object)
		return false, nil
	})
}

func (d *detaching) see(object *clusterv1.ManagedCluster) {
	d.mu.Lock()
	d.silent = !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionAvailable)
	d.mu.Unlock()
	for _, finalizer := range object.Finalizers {
		if finalizer != cluster.APIResourceCleanupFinalizer && finalizer != cluster.ResourceCleanupFinalizer {
			d.say("%s waits for its finalizer %s, which is not the hub's: the one who set it has to act.", d.cluster,
				finalizer)
		}
	}
}

func (d *detaching) seeWorks(objects map[string]kube.Object) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.works)
	d.works = sorted[*workv1.ManifestWork](objects)
	if len(d.works) > 0 || before > 0 {
		d.say("%s", d.worksLeft())
	}
	return false, nil
}

func (d *detaching) seeAddOns(objects map[string]kube.Object) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addOns = sorted[*addonv1alpha1.ManagedClusterAddOn](objects)
	if len(d.addOns) > 0 {
		d.say("%s", d.addOnsLeft())
	}
	return false, nil
}

// sorted are objects by their names.
func sorted[O kube.Object](objects map[string]kube.Object) []O {
	var list []O
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		if object, ok := objects[key].(O); ok {
			list = append(list, object)
		}
	}
	return list
}

// worksLeft lists the works and what each waits for. The caller holds the lock.
func (d *detaching) worksLeft() string {
	var reported []string
	for _, w := range d.works {
		said := w.Name + finalizersOf(w)
		deleting := meta.FindStatusCondition(w.Status.Conditions, work.ConditionDeleting)
		switch {
		case w.DeletionTimestamp == nil:
			said = w.Name + " (the hub has not begun to delete it)"
		case d.silent && slices.Contains(w.Finalizers, work.ManifestWorkFinalizer):
			said = w.Name + " (waits for the agent, which the hub does not hear from)"
		case deleting != nil:
			said = w.Name + " (" + deleting.Message + ")"
		}
		reported = append(reported, said)
	}
	if len(reported) == 0 {
		return "No work is left."
	}
	return fmt.Sprintf("%s left: %s", crud.Count(len(reported), "work"), text.List(reported, 5))
}

// addOnsLeft lists the add-ons. The caller holds the lock.
func (d *detaching) addOnsLeft() string {
	var reported []string
	for _, a := range d.addOns {
		reported = append(reported, a.Name+finalizersOf(a))
	}
	return fmt.Sprintf("%s left: %s", crud.Count(len(reported), "add-on"), text.List(reported, 5))
}

func finalizersOf(object kube.Object) string {
	if len(object.GetFinalizers()) == 0 {
		return ""
	}
	return " (finalizers: " + strings.Join(object.GetFinalizers(), ", ") + ")"
}

// absent is the end for a cluster that the hub does not have. That is what was
// asked for if its namespace, which hubs keep, shows that it was there. Without one
// the name may be misspelt.
func (d *detaching) absent(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	err := d.client.Get(ctx, namespace, "", d.cluster)
	// The cluster itself shows its name, where it can be asked.
	if d.managed == nil && (err != nil || namespace.Labels[cluster.NameLabel] != d.cluster) {
		return refuse(fmt.Sprintf("There is no managed cluster %q", d.cluster),
			"The hub %s has no ManagedCluster of this name, and no namespace that shows that it had one, so nothing "+
				"was detached. %s\n"+
				"If the cluster was detached before together with its namespace, nothing is left to do.",
			d.client.Host(), orElse(d.cluster, "managed cluster", d.clusterNames(ctx)))
	}
	d.say("The hub has no managed cluster %s. Nothing is to be detached.", d.cluster)
	return d.finish(ctx, &clusterv1.ManagedCluster{}, func(context.Context) error { return nil })
}

// namespace deletes the cluster's namespace if that is wanted, and else says that
// it stays. One that is not the cluster's is left alone.
func (d *detaching) namespace(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	err := d.client.Get(ctx, namespace, "", d.cluster)
	switch {
	case kube.IsNotFound(err, d.cluster):
		return nil
	case err != nil && !d.Bool("delete_namespace"):
		d.say("Whether the hub keeps the namespace %s can't be read.", d.cluster)
		return nil // the cluster is gone, which is all that was asked for
	case err != nil:
		return err
	case namespace.Labels[cluster.NameLabel] != d.cluster:
		return nil
	case !d.Bool("delete_namespace") && namespace.DeletionTimestamp == nil:
		d.say("The namespace %s stays on the hub, as hubs keep it. With delete_namespace it goes, too.", d.cluster)
		return nil
	}
	d.say("The namespace %s is being deleted.", d.cluster)
	deletion, err := d.client.Delete(ctx, namespace, "", d.cluster, namespace.UID)
	if err == nil && !deletion.Gone {
		err = d.client.WaitGone(ctx, namespace, "", d.cluster, namespace.UID)
	}
	if err == nil {
		d.say("The namespace %s is gone.", d.cluster)
	}
	return err
}

// force does in the place of a lost cluster's agent what the hub waits for.
func (d *detaching) force(ctx context.Context) {
	d.mu.Lock()
	silent, works, addOns := d.silent, d.works, d.addOns
	d.mu.Unlock()
	patient := time.Since(d.begun) < d.duration("force_after", time.Minute)
	if !d.Bool("force") || patient && !silent {
		return
	}
	for _, a := range addOns {
		d.push(ctx, "add-on", a, &addonv1alpha1.ManagedClusterAddOn{}, a.Finalizers, patient)
	}
	for _, w := range works {
		if d.push(ctx, "work", w, &workv1.ManifestWork{}, []string{work.ManifestWorkFinalizer}, patient) {
			d.left = append(d.left, fmt.Sprintf("%s: %s", w.Name, describeObjects(w)))
		}
	}
}

// push deletes an object if the hub has not, and removes finalizers from it. It
// reports whether it has removed any. What the hub may still come to is left to it
// for a while.
func (d *detaching) push(
	ctx context.Context, what string, object, empty kube.Object, finalizers []string, patient bool,
) bool {
	if object.GetDeletionTimestamp() == nil {
		if !patient {
			_, err := d.client.Delete(ctx, empty, d.cluster, object.GetName(), object.GetUID())
			d.warnOnce(ctx, fmt.Sprintf("delete the %s %s", what, object.GetName()), err)
		}
		return false
	}
	err := crud.RemoveFinalizers(ctx, d.client, object, empty, finalizers...)
	if apierrors.IsConflict(err) || kube.IsNotFound(err, object.GetName()) {
		return false // it has none of them, or it changed: the next look has the news
	}
	d.warnOnce(ctx, fmt.Sprintf("remove the finalizer of the %s %s", what, object.GetName()), err)
	if err == nil {
		d.say("The %s %s goes without its agent.", what, object.GetName())
	}
	return err == nil
}

// warnOnce says once that something of force failed.
func (d *detaching) warnOnce(ctx context.Context, doing string, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if text := hub.Explain(d.client.Host(), doing, err); !d.reported[text] {
		d.reported[text] = true
		d.warn("Cannot "+doing, "%s", text)
	}
}

// warnOfLeftObjects explains what force has left in the cluster.
func (d *detaching) warnOfLeftObjects() {
	if len(d.left) == 0 {
		return
	}
	d.warn(fmt.Sprintf("Objects are left in the cluster %q", d.cluster),
		"The agent did not clean up, so the hub no longer knows of what these works have made there, and nothing "+
			"will remove it:\n  %s\n\n"+
			"If the cluster still exists, remove from it these objects, the agent (kubectl delete namespace %s) and "+
			"the agent's records (kubectl get appliedmanifestworks; they carry the finalizer %s).",
		strings.Join(d.left, "\n  "), cluster.AgentNamespace, work.AppliedManifestWorkFinalizer)
}

// describeObjects lists the objects of a work.
func describeObjects(w *workv1.ManifestWork) string {
	var reported []string
	for _, m := range w.Spec.Workload.Manifests {
		var object struct {
			Kind     string `json:"kind"`
			Metadata struct{ Namespace, Name string }
		}
		if json.Unmarshal(m.Raw, &object) != nil {
			continue
		}
		of := workload.Qualified(object.Metadata.Namespace, object.Metadata.Name)
		reported = append(reported, object.Kind+" "+of)
	}
	return text.List(reported, 10)
}

// tooLate describes what keeps the cluster.
func (d *detaching) tooLate(object *clusterv1.ManagedCluster) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	detail := []string{hub.DescribeDeletion(object, time.Now())}
	if len(d.works) > 0 {
		detail = append(detail, "  "+d.worksLeft())
	}
	if len(d.addOns) > 0 {
		detail = append(detail, "  "+d.addOnsLeft())
	}
	next := "Its agent has to run and to reach the hub, to clean up. If the cluster is lost, detach it with force, " +
		"which leaves in it what the works have made."
	if d.Bool("force") {
		next = "Force only takes away what the agent would: the finalizers of works and add-ons. Look at what is left."
	}
	return refuse(fmt.Sprintf("Managed cluster %q is not detached within %s", d.cluster, d.timeout),
		"It is still being deleted:\n%s\n\n%s Next:\n  kubectl describe managedcluster %s\n  kubectl get "+
			"manifestworks,managedclusteraddons -n %s", attribute.JoinLines(detail), next, d.cluster, d.cluster)
}
