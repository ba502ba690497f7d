package registration

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// Whose an acceptance is. It is one field of a cluster's record, which may belong to
// another resource, or to an agent, so it has a mark of its own.

// acceptanceMark is the mark of the resource that decides about a cluster.
func acceptanceMark(object metav1.Object) string {
	return object.GetAnnotations()[attribute.AcceptanceOwnerAnnotation]
}

// acceptanceIsForeign reports whether another resource decides about a cluster.
func acceptanceIsForeign(object metav1.Object, claim crud.Claim) bool {
	mark := acceptanceMark(object)
	return mark != "" && mark != claim.Owner
}

// foreignAcceptance says that another resource decides about a cluster.
func foreignAcceptance(host string, object *clusterv1.ManagedCluster) string {
	return fmt.Sprintf("On the hub %s another Terraform resource, in this or another state, decides about the cluster: it has set hubAcceptsClient = %t (its mark, the annotation %s, is %s).",
		host, object.Spec.AcceptsClient(), attribute.AcceptanceOwnerAnnotation, acceptanceMark(object))
}

const acceptanceRemedy = "Remove the resource here (terraform state rm), or take the decision over with adopt = true."

// applied is the decision as it is written. The UID keeps a cluster that was just
// deleted from being re-created.
func (m *clusterAcceptanceModel) applied(object *clusterv1.ManagedCluster, mark string) *clusterv1.ManagedCluster {
	accept := m.Accepted.ValueBool()
	applied := &clusterv1.ManagedCluster{}
	applied.Name, applied.UID = object.Name, object.UID
	applied.Annotations = map[string]string{attribute.AcceptanceOwnerAnnotation: mark}
	applied.Spec.HubAcceptsClient = &accept
	return applied
}

// forces reports whether the decision is taken over from other field managers.
func (m *clusterAcceptanceModel) forces() bool {
	return m.ForceConflicts.IsNull() || m.ForceConflicts.ValueBool()
}

// isMet reports whether the hub's record has the decision already.
func (m *clusterAcceptanceModel) isMet(object *clusterv1.ManagedCluster) bool {
	return object.Spec.HubAcceptsClient != nil && *object.Spec.HubAcceptsClient == m.Accepted.ValueBool()
}

// ModifyPlan asks the hub what would come of the decision, if the cluster is there.
func (r *clusterAcceptanceResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || resp.Plan.Raw.Equal(req.State.Raw) || !req.Config.Raw.IsFullyKnown() {
		return
	}
	client := r.Hub.PlanClient()
	if client == nil || r.Hub.HasWritten() {
		return
	}
	var plan clusterAcceptanceModel
	resp.Diagnostics.Append(resp.Plan.Get(ctx, &plan)...)
	claim := crud.ClaimOf(ctx, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	live := &clusterv1.ManagedCluster{}
	if err := client.Get(ctx, live, "", plan.ManagedCluster.ValueString()); err != nil {
		r.Hub.DidNotAnswer(err) // Or the cluster is still to be made.
		return
	}
	if plan.isMet(live) || acceptanceIsForeign(live, claim) {
		return
	}
	options := kube.ApplyOptions{Manager: hub.AcceptanceManager, Force: plan.forces(), DryRun: true}
	if err := client.Apply(ctx, plan.applied(live, "planned"), options); err != nil {
		owned := crud.Owned{What: plan.What(), Places: map[string]string{"spec.hubAcceptsClient": "accepted", cluster.RefusedAcceptance: "accepted"}}
		r.Refused(ctx, resp, client, owned, "change", err)
	}
}

// recognize warns when another resource decides about the cluster by now.
func (r *clusterAcceptanceResource) recognize(ctx context.Context, object *clusterv1.ManagedCluster, what string, was crud.PrivateReader, diags *diag.Diagnostics) {
	if claim := crud.ClaimOf(ctx, was, diags); acceptanceIsForeign(object, claim) {
		diags.AddWarning("Taken over by another owner: "+what,
			foreignAcceptance(r.Hub.Client(diags).Host(), object)+" This resource no longer changes it. "+acceptanceRemedy)
	}
}

// deny withdraws the acceptance, if it is the resource's own.
func (r *clusterAcceptanceResource) deny(ctx context.Context, client *kube.Client, state *clusterAcceptanceModel, was crud.PrivateReader, diags *diag.Diagnostics) {
	name := state.ManagedCluster.ValueString()
	object := &clusterv1.ManagedCluster{}
	err := client.Get(ctx, object, "", name)
	if err == nil {
		if acceptanceIsForeign(object, crud.ClaimOf(ctx, was, diags)) {
			diags.AddWarning("Not denied: "+state.What(), foreignAcceptance(client.Host(), object)+" It was left as it is and only removed from this state.")
			return
		}
		err = client.MergePatch(ctx, object, hub.AcceptanceManager, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{attribute.AcceptanceOwnerAnnotation: nil}},
			"spec":     map[string]any{"hubAcceptsClient": false},
		})
	}
	if err != nil && !kube.IsNotFound(err, name) {
		hub.AddAPIError(diags, client, fmt.Sprintf("deny managed cluster %q", name), err)
	}
}

// ownsDecision refuses to change the decision of another resource. creating takes one
// over that says the same, with a warning.
func (a *acceptance) ownsDecision(object *clusterv1.ManagedCluster, diags *diag.Diagnostics) bool {
	switch {
	case !acceptanceIsForeign(object, a.claim) || a.model.Adopt.ValueBool():
		return true
	case a.creating && a.model.isMet(object):
		diags.AddWarning("An acceptance was taken over from another Terraform resource",
			fmt.Sprintf("%s It says the same as this one. If that resource is still in a state, remove it there with terraform state rm, so that its destruction does not deny the cluster. If its state is lost, nothing more is needed.",
				foreignAcceptance(a.client.Host(), object)))
		return true
	}
	diags.AddError("Taken over by another owner: "+a.model.What(), foreignAcceptance(a.client.Host(), object)+"\n\nNothing was changed. "+acceptanceRemedy)
	return false
}

// importedAcceptance is the claim on an acceptance that an import takes over.
func importedAcceptance(object metav1.Object) crud.Claim {
	mark := acceptanceMark(object)
	return crud.Claim{Owner: mark, UID: object.GetUID(), Borrowed: mark != ""}
}
