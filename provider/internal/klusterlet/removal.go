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
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
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
	"without replacing the resource, before destroying it. The value in the state counts: for a tainted resource, " +
	"run terraform untaint first. Where the hub is lost, apply this resource alone, with terraform apply " +
	"-target=ADDRESS: a whole apply would create on the hub what was lost with it."

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
			"exists, remove the agent there (kubectl delete namespace %s), its rights (the ClusterRoles and "+
			"ClusterRoleBindings open-cluster-management:klusterlet-*), and what works have made.",
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

// leaving is what has to be read of an agent before it is removed, to know afterwards
// for which works on the hub nobody is there any more.
type leaving struct {
	agent *agent
	hub   *joining
	// hash identifies the agent's hub; "" when it has no kubeconfig of any hub.
	hash string
	// last says that the hub serves no other agent under the cluster's name.
	last bool
}

// leaving looks at an agent that is about to be removed from the cluster at found.
// detached says that the hub has no such cluster any more.
func (a *agent) leaving(ctx context.Context, j *joining, found place, detached bool) leaving {
	l := leaving{agent: a, hub: j, last: detached}
	if j == nil {
		return l
	}
	l.hash, _ = a.hubHash(ctx) // without it, works of any hub count
	if mc := j.cluster(ctx); mc != nil {
		secret := a.identity()
		_ = a.client.Get(ctx, secret, secret.Namespace, secret.Name) // without it, the cluster's UID decides
		of, id, _ := identityOf(secret)
		if of != a.name {
			id = ""
		}
		l.last = isAgentOf(mc, id, found.UID)
	}
	return l
}

// isAgentOf reports whether an agent is the one that the hub serves for a cluster: by
// its ID, which may be "", and else by the UID of the cluster that it is in. Where the
// hub has noted neither, nobody can say so.
func isAgentOf(mc *clusterv1.ManagedCluster, id, uid string) bool {
	if served := mc.Annotations[cluster.AgentAnnotation]; served != "" && id != "" {
		return served == id
	}
	return mc.Annotations[muster.ClusterUIDAnnotation] == uid
}

// letWorksGo takes the agent's finalizer off the works that are left on the hub, such as
// those that the agent has never applied: nobody else would, and neither they nor the
// ManagedCluster could be deleted. Works that are still applied in the cluster keep it,
// unless keep says that what they have made is to stay there. So do all works when the
// hub serves another agent under the cluster's name.
func (l leaving) letWorksGo(ctx context.Context, keep bool, diags *diag.Diagnostics) {
	if l.hub == nil || !l.last {
		return
	}
	works := &workv1.ManifestWorkList{}
	if err := l.hub.client.List(ctx, works, kube.ListOptions{Namespace: l.hub.name}); err != nil {
		return // their deletion says what it waits for
	}
	isApplied := func(string) bool { return false }
	if !keep {
		isApplied = l.applied(ctx)
	}
	var freed, applied, failed []string
	for i := range works.Items {
		w := &works.Items[i]
		if !slices.Contains(w.Finalizers, work.ManifestWorkFinalizer) {
			continue
		}
		if isApplied(w.Name) {
			applied = append(applied, w.Name)
			continue
		}
		err := crud.RemoveFinalizers(ctx, l.hub.client, w, &workv1.ManifestWork{}, work.ManifestWorkFinalizer)
		if err == nil {
			freed = append(freed, w.Name)
		} else if !kube.IsNotFound(err, w.Name) {
			failed = append(failed, w.Name)
		}
	}
	l.warn(freed, applied, failed, keep, diags)
}

// applied returns which works are still applied in the cluster. When the cluster does
// not say so, all may be.
func (l leaving) applied(ctx context.Context) func(name string) bool {
	records := &workv1.AppliedManifestWorkList{}
	err := l.agent.client.List(ctx, records, kube.ListOptions{})
	if err != nil && !kube.IsKindNotServed(err) {
		return func(string) bool { return true }
	}
	return func(name string) bool {
		return slices.ContainsFunc(records.Items, func(r workv1.AppliedManifestWork) bool {
			return r.Spec.ManifestWorkName == name && (l.hash == "" || r.Spec.HubHash == l.hash)
		})
	}
}

// warn says which works are left on the hub without an agent, and what to do about them.
func (l leaving) warn(freed, applied, failed []string, keep bool, diags *diag.Diagnostics) {
	name := l.hub.name
	byHand := fmt.Sprintf("\n  kubectl edit manifestwork -n %s NAME    # on the hub: remove %s from "+
		"metadata.finalizers",
		name, work.ManifestWorkFinalizer)
	if len(freed) > 0 {
		stays := ""
		if keep {
			stays = " What they have made stays in the cluster, as keep_works_on_destroy is true."
		}
		diags.AddWarning(fmt.Sprintf("Works of cluster %q are left on the hub without an agent", name),
			fmt.Sprintf("The agent is removed, so its finalizer was taken off these works, which can be deleted now: "+
				"%s.%s Another agent of this cluster would apply them.", strings.Join(freed, ", "), stays))
	}
	if len(applied) > 0 {
		diags.AddWarning(fmt.Sprintf("Works of cluster %q are still applied in it, and its agent is removed", name),
			fmt.Sprintf("The agent's finalizer stays on these works, because what they have made is still in the "+
				"cluster: %s. "+
				"They and the ManagedCluster can't be deleted until an agent has cleaned up: install it again. "+
				"To leave the objects in the cluster, take the finalizer off:%s", strings.Join(applied, ", "), byHand))
	}
	if len(failed) > 0 {
		diags.AddWarning(fmt.Sprintf("Works of cluster %q wait for an agent that is removed", name),
			fmt.Sprintf("The agent's finalizer could not be taken off these works: %s. They and the ManagedCluster "+
				"can't be deleted until somebody does:%s", strings.Join(failed, ", "), byHand))
	}
}
