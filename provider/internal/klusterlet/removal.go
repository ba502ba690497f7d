package klusterlet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// remove removes the agent of a state that is destroyed. was is where it was installed.
func (r *klusterletResource) remove(ctx context.Context, state model, was place, diags *diag.Diagnostics) {
	timeout, problems := state.limits().Delete(ctx, attribute.DefaultDelete)
	diags.Append(problems...)
	j := r.joining(state.Text("cluster_name"))
	mc, err := j.record(ctx)
	detached := j != nil && kube.IsNotFound(err, j.name)
	if mc != nil && crud.IsLost(mc) {
		warnOfLeftAgent(j.name, "its muster_managed_cluster says that it is gone for good", diags)
		return
	}
	budget := kube.DefaultRetryBudget
	if detached {
		budget = refreshBudget
	}
	agent := r.agent(state, budget, diags)
	if diags.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := agent.place(ctx)
	switch {
	case err != nil && detached && kube.IsUnanswered(err):
		warnOfLeftAgent(agent.name, fmt.Sprintf("the hub has no such cluster any more, and it does not answer at %s",
			agent.client.Host()), diags)
		return
	case err != nil:
		agent.addError(diags, fmt.Sprintf("remove the agent from cluster %q", agent.name), err)
		return
	case was.UID != "" && found.UID != was.UID:
		diags.AddWarning(fmt.Sprintf("The agent of cluster %q was not removed", agent.name),
			fmt.Sprintf("The cluster that it was installed in, with the UID %q, is no longer at %s, so there is "+
				"nothing to remove here. If it still runs elsewhere, deny the cluster or delete its "+
				"ManagedCluster.", was.UID, found.Host))
		return
	}
	keep := state.Bool("keep_works_on_destroy")
	if !keep && !agent.waitForWorks(ctx, j, timeout, diags) {
		return
	}
	leaving := agent.leaving(ctx, j, found, detached)
	agent.remove(ctx, timeout, diags)
	if !diags.HasError() {
		leaving.letWorksGo(ctx, keep, diags)
	}
}

// hubHash identifies the agent's hub in the names of applied works. It is "" when the
// agent has no kubeconfig of any hub.
func (a *agent) hubHash(ctx context.Context) (hash string, err error) {
	for _, name := range []string{cluster.HubKubeconfigSecret, cluster.BootstrapSecret} {
		secret := &corev1.Secret{}
		if err := a.client.Get(ctx, secret, a.options.Namespace, name); kube.IsNotFound(err, name) {
			continue
		} else if err != nil {
			return "", err
		}
		if server := endpointOf(secret.Data[cluster.KubeconfigKey]).Server; server != "" {
			return work.HubHash(server), nil
		}
	}
	return "", nil
}

// keepWorksAdvice is how the agent goes without its works.
const keepWorksAdvice = "To leave in the cluster what they applied, set keep_works_on_destroy = true and apply, " +
	"without replacing the resource, before destroying it. " +
	"The value in the state counts: for a tainted resource, run terraform untaint first. Where the hub is lost, " +
	"apply this resource alone, with terraform apply -target=ADDRESS: " +
	"a whole apply would create on the hub what was lost with it."

// waitForWorks waits until nothing of the agent's hub is applied any more. It
// reports whether the agent may go.
func (a *agent) waitForWorks(ctx context.Context, j *joining, timeout time.Duration, diags *diag.Diagnostics) bool {
	doing := fmt.Sprintf("wait until the hub's works are gone from cluster %q", a.name)
	hash, err := a.hubHash(ctx)
	if err != nil {
		a.addError(diags, doing, err)
		return false
	}
	if hash == "" {
		return true
	}
	works := &workv1.AppliedManifestWorkList{}
	left := func() []string {
		var names []string
		for _, w := range works.Items {
			if w.Spec.HubHash == hash {
				names = append(names, fmt.Sprintf("  %s, with %d objects in "+
					"the cluster", w.Spec.ManifestWorkName, len(w.Status.AppliedResources)))
			}
		}
		return names
	}
	waiting, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if j != nil {
		stop := j.watchWorks(waiting, fail)
		defer stop()
	}
	err = a.client.WaitList(waiting, works, &workv1.AppliedManifestWork{}, kube.ListOptions{}, func() (bool, error) {
		return len(left()) == 0, nil
	})
	var kept keptWorksError
	switch {
	case err == nil, kube.IsKindNotServed(err):
		if j != nil {
			j.waitForFinalizers(ctx)
		}
		return true
	case errors.As(context.Cause(waiting), &kept):
		diags.AddError(fmt.Sprintf("Works of the hub are left in cluster %q, and nobody deletes them", a.name),
			fmt.Sprintf("The agent was not removed, because only it can remove from the cluster what these works "+
				"applied:\n%s\n\nOf them these are on the hub and not about to be deleted:\n%s\n\n"+
				"Delete them, or let this resource be destroyed after what makes them (depends_on), and apply again. "+
				"Next:\n  kubectl get manifestworks -n %s    # on the hub\n"+
				keepWorksAdvice+" An agent that is only to be installed again needs no replacement: what is missing "+
				"or changed is repaired by terraform apply.",
				attribute.JoinLines(left()), attribute.JoinLines(kept), a.name))
	case hub.IsTimeout(err):
		diags.AddError(fmt.Sprintf("Works of the hub are left in cluster %q", a.name),
			fmt.Sprintf("The agent was not removed, because after %s these works were still applied in the cluster "+
				"and only it can remove them:\n%s\n\n"+
				"Delete them on the hub and apply again. Next:\n  kubectl get manifestworks -n %s    # on the hub\n"+
				keepWorksAdvice,
				timeout, attribute.JoinLines(left()), a.name))
	default:
		a.addError(diags, doing, err)
	}
	return false
}

// addError adds the error of a request to the cluster, and what to do if that is gone.
func (a *agent) addError(diags *diag.Diagnostics, doing string, err error) {
	hub.AddAPIError(diags, a.client, doing, err)
	diags.AddWarning(fmt.Sprintf("If cluster %q is gone for good", a.name),
		fmt.Sprintf("There is nothing left to remove then. %s\nWithout a muster_managed_cluster, take this resource "+
			"out of the state with terraform state rm, and apply again.", crud.LostAdvice(a.name)))
}

// warnOfLeftAgent says what stays in a cluster that was given up.
func warnOfLeftAgent(name, why string, diags *diag.Diagnostics) {
	diags.AddWarning(fmt.Sprintf("The agent of cluster %q was not removed", name),
		fmt.Sprintf("Nobody has looked into the cluster: %s. The resource is out of the state. If the cluster still "+
			"exists, remove the agent there "+
			"(kubectl delete namespace %s), its rights (the ClusterRoles and ClusterRoleBindings "+
			"open-cluster-management:klusterlet-*), and what works have made.",
			why, cluster.AgentNamespace))
}

// remove deletes the agent, its Deployment first and its namespace last. Namespaces take
// some seconds to go, so they go side by side.
func (a *agent) remove(ctx context.Context, timeout time.Duration, diags *diag.Diagnostics) {
	objects := a.allObjects()
	slices.Reverse(objects)
	var going []func() bool
	for _, object := range objects {
		deletion, err := a.client.Delete(ctx, object, object.GetNamespace(), object.GetName(), "")
		gone := func() bool {
			if err == nil && !deletion.Gone {
				err = a.client.WaitGone(ctx, object, object.GetNamespace(), object.GetName(), deletion.UID)
			}
			return a.isRemoved(object, err, timeout, diags)
		}
		if _, isNamespace := object.(*corev1.Namespace); isNamespace && err == nil {
			going = append(going, gone)
		} else if !gone() {
			return
		}
	}
	for _, gone := range going {
		if !gone() {
			return
		}
	}
}

// isRemoved reports whether an object is gone, and says why not.
func (a *agent) isRemoved(object kube.Object, err error, timeout time.Duration, diags *diag.Diagnostics) bool {
	kind, name := kindOf(object), object.GetName()
	doing := fmt.Sprintf("remove %s from cluster %q", nameOf(object), a.name)
	switch {
	case err == nil:
		return true
	case hub.IsTimeout(err):
		diags.AddError("Cannot "+doing, fmt.Sprintf("It was still there after %s.\n%s\n\nNext, in the managed "+
			"cluster:\n  kubectl describe %s %s",
			timeout, hub.DescribeDeletion(object, time.Now()), strings.ToLower(kind), name))
	default:
		hub.AddAPIError(diags, a.client, doing, err)
	}
	return false
}

// worksPatience is how long works may stay on the hub undeleted while an agent
// waits for them to go.
const worksPatience = 30 * time.Second

// keptWorksError lists works that nobody deletes.
type keptWorksError []string

func (e keptWorksError) Error() string { return fmt.Sprintf("%d works are not being deleted", len(e)) }

// watchWorks fails a wait for works to go when the hub has works of the cluster
// and for a while none of them was deleted. What can't be read fails nothing.
// stop ends it.
func (j *joining) watchWorks(ctx context.Context, fail context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		before := -1
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(worksPatience):
			}
			works := &workv1.ManifestWorkList{}
			if err := j.client.List(ctx, works, kube.ListOptions{Namespace: j.name}); err != nil {
				return
			}
			kept, deleting := keptWorks(works.Items)
			if len(kept) > 0 && !deleting && (before < 0 || len(kept) >= before) {
				fail(kept)
				return
			}
			before = len(kept)
		}
	}()
	return func() { cancel(); <-done }
}

// waitForFinalizers waits until the agent has taken its finalizer off the works that
// are being deleted. It does so after it has removed the objects, and nobody else
// does: with the agent gone, these works and their cluster could not be deleted. An
// agent or a hub that does not answer is not waited for long.
func (j *joining) waitForFinalizers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, worksPatience)
	defer cancel()
	works, own := &workv1.ManifestWorkList{}, kube.ListOptions{Namespace: j.name}
	_ = j.client.WaitList(ctx, works, &workv1.ManifestWork{}, own, func() (bool, error) {
		return !slices.ContainsFunc(works.Items, func(w workv1.ManifestWork) bool {
			return w.DeletionTimestamp != nil && slices.Contains(w.Finalizers, work.ManifestWorkFinalizer)
		}), nil
	})
}

// keptWorks lists the works that nobody deletes; deleting says whether others
// are on their way.
func keptWorks(works []workv1.ManifestWork) (kept keptWorksError, deleting bool) {
	for _, w := range works {
		if w.DeletionTimestamp != nil {
			deleting = true
			continue
		}
		kept = append(kept, "  "+w.Name)
	}
	return attribute.Sorted(kept), deleting
}
