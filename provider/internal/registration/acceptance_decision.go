package registration

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// acceptance carries one acceptance or denial out.
type acceptance struct {
	hub     *hub.Hub
	client  *kube.Client
	model   clusterAcceptanceModel
	timeout time.Duration
	// creating is that the resource decides for the first time; claim is what it knows
	// its decision by.
	creating bool
	claim    crud.Claim
}

func (a *acceptance) name() string { return a.model.ManagedCluster.ValueString() }

func (a *acceptance) verb() string {
	if a.model.Accepted.ValueBool() {
		return "accept"
	}
	return "deny"
}

// decide waits for the cluster and writes hubAcceptsClient. It returns nil after
// an error.
func (a *acceptance) decide(ctx context.Context, diags *diag.Diagnostics) *clusterv1.ManagedCluster {
	doing := fmt.Sprintf("%s managed cluster %q", a.verb(), a.name())
	object := &clusterv1.ManagedCluster{}
	err := a.client.Wait(ctx, object, "", a.name(), func(exists bool) (bool, error) { return exists, nil })
	switch {
	case hub.IsTimeout(err):
		diags.AddError(fmt.Sprintf("There is no managed cluster %q", a.name()),
			fmt.Sprintf("The hub %s had no ManagedCluster %q for %s, so it could not be accepted. "+
				"Create it with muster_managed_cluster and refer to that resource's name here, or install an agent that registers it. "+
				"The clusters that the hub knows: kubectl get managedclusters", a.client.Host(), a.name(), a.timeout))
		return nil
	case err != nil:
		hub.AddAPIError(diags, a.client, doing, err)
		return nil
	}
	if !a.ownsDecision(object, diags) {
		return nil
	}
	if a.claim = a.claim.Writing(); a.model.isMet(object) && acceptanceMark(object) == a.claim.Owner {
		return object
	}
	applied := a.model.applied(object, a.claim.Owner)
	if err := a.client.Apply(ctx, applied, kube.ApplyOptions{Manager: hub.AcceptanceManager, Force: a.model.forces()}); err != nil {
		hub.AddAPIError(diags, a.client, doing, err)
		return nil
	}
	return applied
}

// follow waits until the hub has acted on an acceptance, and sees to the
// certificate request.
func (a *acceptance) follow(ctx context.Context, object *clusterv1.ManagedCluster, diags *diag.Diagnostics) {
	if !a.model.Accepted.ValueBool() {
		a.followDenial(ctx, object, diags)
		return
	}
	granted := func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("it was deleted meanwhile")
		}
		return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted), nil
	}
	if done, _ := granted(true); !done {
		err := a.client.Wait(ctx, object, "", a.name(), granted)
		if hub.IsTimeout(err) {
			diags.AddError(fmt.Sprintf("The hub has not acted on the acceptance of managed cluster %q", a.name()),
				fmt.Sprintf("hubAcceptsClient is true, but after %s the hub's registration controller has not granted the cluster its rights. Conditions:\n%s\n\nCheck that the controller runs. Next:\n  kubectl describe managedcluster %s",
					a.timeout, hub.DescribeConditions(object.Status.Conditions, time.Now()), a.name()))
			return
		}
		if err != nil {
			hub.AddAPIError(diags, a.client, fmt.Sprintf("wait for the acceptance of managed cluster %q", a.name()), err)
			return
		}
	}
	if meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined) {
		return
	}
	approve := a.model.ApproveCSR.ValueBool()
	if a.model.ApproveCSR.IsNull() {
		byItself, err := a.hub.Has(ctx, a.client, hubinfo.BoundBootstrapApproval)
		if err != nil {
			hub.AddAPIError(diags, a.client, "find out whether the hub approves certificate requests", err)
			return
		}
		approve = !byItself
	}
	if approve {
		approveRequests(ctx, a.client, a.name(), attribute.StringList(a.model.Requesters), a.model.ApproveCSRName.ValueString(), a.timeout, diags)
	}
}

// denialPatience is how long a denial is waited for that works may hold up.
const denialPatience = 15 * time.Second

// followDenial waits until the hub has withdrawn the rights of a cluster that
// it had accepted. The agent keeps those to its works until none is left, which
// may be never, so that is only a warning.
func (a *acceptance) followDenial(ctx context.Context, object *clusterv1.ManagedCluster, diags *diag.Diagnostics) {
	withdrawn := func(exists bool) (bool, error) {
		return !exists || !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted), nil
	}
	if done, _ := withdrawn(true); done {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, min(denialPatience, a.timeout))
	defer cancel()
	err := a.client.Wait(bounded, object, "", a.name(), withdrawn)
	switch {
	case hub.IsTimeout(err):
		diags.AddWarning(fmt.Sprintf("Managed cluster %q is denied and still has works", a.name()),
			fmt.Sprintf("Its agent has lost all rights except those to the ManifestWorks in its namespace. It keeps these until the works are gone, to clean up after them. "+
				"Delete them to make the denial complete:\n  kubectl delete manifestworks -n %s --all", a.name()))
	case err != nil:
		hub.AddAPIError(diags, a.client, fmt.Sprintf("wait for the denial of managed cluster %q", a.name()), err)
	}
}
