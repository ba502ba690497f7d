package operation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// DetachOptions say which cluster leaves the fleet, and how.
type DetachOptions struct {
	Cluster string
	// Force takes away what only the cluster's agent could take away: the finalizers
	// of works and add-ons. It begins at once when the hub no longer hears from the
	// agent, and else after Grace.
	Force bool
	// Grace is how long a cluster whose agent is there may clean up by itself.
	Grace time.Duration
	// DeleteNamespace deletes the cluster's namespace on the hub, too.
	DeleteNamespace bool
	// Timeout is how long all of it may take.
	Timeout time.Duration
}

// Detach takes a cluster out of the fleet: it deletes the ManagedCluster, and waits
// until the agent has removed the objects of its works, and the hub the cluster's
// add-ons, works and rights.
func Detach(ctx context.Context, client *kube.Client, o DetachOptions, l Listener) error {
	d := &detaching{DetachOptions: o, client: client, teller: newTeller(l)}
	object := &clusterv1.ManagedCluster{}
	err := client.Get(ctx, object, "", o.Cluster)
	if kube.IsNotFound(err, o.Cluster) {
		return d.absent(ctx)
	}
	if err != nil {
		return err
	}
	if ownership.Mark(object) != "" {
		d.warn(fmt.Sprintf("Terraform manages managed cluster %q", o.Cluster),
			"A muster_managed_cluster has created it, or taken it over. If that is still in a configuration, its next apply creates the cluster again: remove the resource, or use terraform destroy instead.")
	}
	deletion, err := client.Delete(ctx, object, "", o.Cluster, object.UID)
	if err != nil {
		return err
	}
	d.say("The hub is asked to let %s go.", o.Cluster)
	waiting, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if !deletion.Gone {
		d.see(object)
		err = d.looking(waiting, d.force, func(ctx context.Context) error { return d.awaitEnd(ctx, object) })
	}
	if err == nil {
		d.say("%s is no longer in the fleet.", o.Cluster)
		d.tellLeftBehind()
		err = d.namespace(waiting)
	}
	if hub.IsTimeout(err) && ctx.Err() == nil {
		return d.tooLate(object)
	}
	return interrupted(ctx, err, fmt.Sprintf("Managed cluster %q is being deleted, which nobody waits for any more. Run the same again to follow it.", o.Cluster))
}

// detaching is the departure of one cluster.
type detaching struct {
	DetachOptions
	*teller
	client *kube.Client

	mu     sync.Mutex
	silent bool // the hub does not hear from the agent
	works  map[string]*workv1.ManifestWork
	addOns map[string]*addonv1alpha1.ManagedClusterAddOn
	// left are the objects that stay in the cluster, and told the errors of force
	// that were told.
	left []string
	told map[string]bool
}

// awaitEnd follows the cluster until it is gone, and tells what it waits for.
func (d *detaching) awaitEnd(ctx context.Context, object *clusterv1.ManagedCluster) error {
	uid := object.UID
	following, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	here := kube.ListOptions{Namespace: d.Cluster}
	running.Go(func() {
		_ = d.client.WaitObjects(following, &workv1.ManifestWorkList{}, &workv1.ManifestWork{}, here, d.seeWorks)
	})
	running.Go(func() {
		_ = d.client.WaitObjects(following, &addonv1alpha1.ManagedClusterAddOnList{}, &addonv1alpha1.ManagedClusterAddOn{}, here, d.seeAddOns)
	})
	return d.client.Wait(ctx, object, "", d.Cluster, func(exists bool) (bool, error) {
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
			d.say("%s waits for its finalizer %s, which is not the hub's: the one who set it has to act.", d.Cluster, finalizer)
		}
	}
}

func (d *detaching) seeWorks(objects map[string]kube.Object) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.works)
	d.works = map[string]*workv1.ManifestWork{}
	for _, object := range objects {
		if w, ok := object.(*workv1.ManifestWork); ok {
			d.works[w.Name] = w
		}
	}
	if len(d.works) > 0 {
		d.say("%s left: %s", plural(len(d.works), "work"), describeWorks(d.works, d.silent))
	} else if before > 0 {
		d.say("No work is left.")
	}
	return false, nil
}

func (d *detaching) seeAddOns(objects map[string]kube.Object) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addOns = map[string]*addonv1alpha1.ManagedClusterAddOn{}
	var told []string
	for _, object := range objects {
		if a, ok := object.(*addonv1alpha1.ManagedClusterAddOn); ok {
			d.addOns[a.Name] = a
			told = append(told, strings.TrimSuffix(a.Name+" (finalizers: "+strings.Join(a.Finalizers, ", ")+")", " (finalizers: )"))
		}
	}
	if len(told) > 0 {
		d.say("%s left: %s", plural(len(told), "add-on"), some(sorted(told), 5))
	}
	return false, nil
}

// absent is the end for a cluster that the hub does not have. That is what was
// asked for, unless the name is misspelt.
func (d *detaching) absent(ctx context.Context) error {
	names := clusterNames(ctx, d.client)
	if near := suggest.Names(d.Cluster, names); len(near) > 0 {
		d.warn(fmt.Sprintf("There is no managed cluster %q", d.Cluster), "Nothing was detached. If another one was meant: %s", orElse(d.Cluster, "managed cluster", names))
	}
	d.say("The hub has no managed cluster %s. Nothing is to be detached.", d.Cluster)
	waiting, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	err := d.namespace(waiting)
	if hub.IsTimeout(err) && ctx.Err() == nil {
		return d.tooLate(&clusterv1.ManagedCluster{})
	}
	return err
}

// namespace deletes the cluster's namespace if that is wanted, and else says that
// it stays. One that is not the cluster's is left alone.
func (d *detaching) namespace(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	err := d.client.Get(ctx, namespace, "", d.Cluster)
	switch {
	case kube.IsNotFound(err, d.Cluster):
		return nil
	case err != nil && !d.DeleteNamespace:
		d.say("Whether the hub keeps the namespace %s can't be read.", d.Cluster)
		return nil // the cluster is gone, which is all that was asked for
	case err != nil:
		return err
	case namespace.Labels[cluster.NameLabel] != d.Cluster:
		return nil
	case !d.DeleteNamespace && namespace.DeletionTimestamp == nil:
		d.say("The namespace %s stays on the hub, as hubs keep it. With delete_namespace it goes, too.", d.Cluster)
		return nil
	}
	d.say("The namespace %s is being deleted.", d.Cluster)
	deletion, err := d.client.Delete(ctx, namespace, "", d.Cluster, namespace.UID)
	if err == nil && !deletion.Gone {
		err = d.client.WaitGone(ctx, namespace, "", d.Cluster, namespace.UID)
	}
	if err == nil {
		d.say("The namespace %s is gone.", d.Cluster)
	}
	return err
}

// tooLate describes what keeps the cluster.
func (d *detaching) tooLate(object *clusterv1.ManagedCluster) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	detail := []string{hub.DescribeDeletion(object, d.Clock.Now())}
	if len(d.works) > 0 {
		detail = append(detail, fmt.Sprintf("  %s left: %s", plural(len(d.works), "work"), describeWorks(d.works, d.silent)))
	}
	for name, a := range d.addOns {
		detail = append(detail, fmt.Sprintf("  The add-on %s is left, with the finalizers: %s", name, strings.Join(a.Finalizers, ", ")))
	}
	next := "Its agent has to run and to reach the hub, to clean up. If the cluster is lost, detach it with force, which leaves in it what the works have made."
	if d.Force {
		next = "Force only takes away what the agent would: the finalizers of works and add-ons. Look at what is left."
	}
	return refuse(fmt.Sprintf("Managed cluster %q is not detached within %s", d.Cluster, d.Timeout),
		"It is still being deleted:\n%s\n\n%s Next:\n  kubectl describe managedcluster %s\n  kubectl get manifestworks,managedclusteraddons -n %s", lines(detail...), next, d.Cluster, d.Cluster)
}
