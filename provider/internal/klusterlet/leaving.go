package klusterlet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
			fmt.Sprintf("The agent is removed, so its finalizer was taken off these works, which can be deleted "+
				"now: %s.%s "+
				"Another agent of this cluster would apply them.", strings.Join(freed, ", "), stays))
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
			fmt.Sprintf("The agent's finalizer could not be taken off these works: %s. "+
				"They and the ManagedCluster can't be deleted until "+
				"somebody does:%s", strings.Join(failed, ", "), byHand))
	}
}
