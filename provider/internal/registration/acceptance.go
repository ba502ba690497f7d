package registration

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

type (
	managedCluster = *clusterv1.ManagedCluster
	// acceptance carries one acceptance or denial out.
	acceptance = crud.Change[managedCluster]
)

// Acceptance is muster_cluster_acceptance.
func Acceptance() crud.Declared {
	return &crud.Kind[managedCluster]{
		Type: "cluster_acceptance", Noun: "the acceptance of managed cluster", Empty: &clusterv1.ManagedCluster{},
		Description: "Accepts a cluster into the fleet: sets `hubAcceptsClient` on its ManagedCluster, waits until " +
			"the hub has given the agent its namespace and rights, and, where the hub does not do that by itself, " +
			"approves the agent's first certificate request.\n\n" +
			"A muster hub approves by itself what comes with a bootstrap token bound to the cluster (see the " +
			"ephemeral resource `muster_bootstrap_kubeconfig`), so there a cluster is best accepted before its agent " +
			"is installed. On an upstream hub, creating this resource waits until the agent's request arrives; " +
			"install the agent in the meantime, and do not make the installation depend on the acceptance.\n\n" +
			"Destroying it denies the cluster: the agent loses its rights, and what runs in the cluster keeps " +
			"running. An acceptance that another Terraform resource has taken over is left alone.",
		Keys: []crud.Key{{
			Name: "managed_cluster",
			Description: "Name of the managed cluster. It has to exist, or to be registered by its agent before the " +
				"timeout.",
			Valid: attribute.ValidClusterName(),
		}},
		Table: acceptanceTable(),
		Timeouts: crud.Timeouts{
			Create: "accepting, with the wait for cluster and certificate request,", Update: "accepting again",
			Delete: "denying",
		},
		Part: &crud.Part[managedCluster]{Write: decide, Claim: importedAcceptance},
		Hooks: crud.Hooks[managedCluster]{
			Plan: planAcceptance,
			AfterWrite: func(ctx context.Context, c *acceptance) bool {
				follow(ctx, c)
				return true // An error must not lose the acceptance.
			},
			Reading: warnOfOwner,
			BeforeDelete: func(ctx context.Context, c *acceptance) bool {
				deny(ctx, c)
				return false
			},
		},
		List: &crud.List[managedCluster]{
			Plural: "acceptances of managed clusters", Objects: &clusterv1.ManagedClusterList{},
			About: "Clusters that are not accepted are not listed: whether to accept them is still to be decided.",
			Is:    func(object managedCluster) bool { return object.Spec.AcceptsClient() },
			Managed: func(object managedCluster) bool {
				return !crud.FieldsOf(object, hub.AcceptanceManager).None()
			},
			Sets:     crud.SetsOfCluster,
			Describe: crud.DescribeCluster,
		},
	}
}

func acceptanceTable() attribute.Table[managedCluster] {
	adopt := attribute.AdoptAttribute()
	adopt.MarkdownDescription = "Whether to take the decision over from another Terraform resource that has made " +
		"another one, or that has taken this one over in the meantime. If omitted or `false`, that is an error. A " +
		"decision of another resource that says the same is taken over with a warning, and one of a person or an " +
		"agent without."
	return attribute.Table[managedCluster]{
		attribute.FlagPointer("accepted",
			schema.BoolAttribute{
				MarkdownDescription: "Whether the hub accepts the cluster. `false` denies it and keeps it denied. " +
					"Defaults to `true`.",
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			},
			func(object managedCluster) **bool { return &object.Spec.HubAcceptsClient }).
			At("spec.hubAcceptsClient").Standard(types.BoolValue(false)),
		attribute.Local[managedCluster]("approve_csr", schema.BoolAttribute{
			MarkdownDescription: "Whether to wait for the agent's first certificate request and approve it. If " +
				"omitted, this is done on hubs that do not approve requests of bound bootstrap tokens themselves, " +
				"that is on upstream hubs. A cluster that has joined needs no approval. Exactly one request is " +
				"approved: several pending requests with different keys or requesters are an error.",
			Optional: true,
		}),
		attribute.Local[managedCluster]("approve_csr_name", attribute.Optional("Name of the one certificate request "+
			"to approve, for when several wait. It has to be one of this cluster, from an allowed requester.",
			stringvalidator.LengthAtLeast(1))),
		attribute.Local[managedCluster]("requesters", schema.ListAttribute{
			MarkdownDescription: "Further user names whose certificate requests may be approved, beside bootstrap " +
				"tokens and the bootstrap service account.",
			Optional: true, ElementType: types.StringType,
		}),
		attribute.Local[managedCluster]("adopt", adopt),
	}
}

// An acceptance is one field of a cluster's record, which may belong to another
// resource, or to an agent, so it has a mark of its own.

// acceptanceMark is the mark of the resource that decides about a cluster.
func acceptanceMark(object metav1.Object) string {
	return object.GetAnnotations()[attribute.AcceptanceOwnerAnnotation]
}

// importedAcceptance is the claim on an acceptance that an import takes over.
func importedAcceptance(object managedCluster) crud.Claim {
	mark := acceptanceMark(object)
	return crud.Claim{Owner: mark, UID: object.GetUID(), Borrowed: mark != ""}
}

// acceptanceIsForeign reports whether another resource decides about a cluster.
func acceptanceIsForeign(object metav1.Object, claim crud.Claim) bool {
	mark := acceptanceMark(object)
	return mark != "" && mark != claim.Owner
}

// foreignAcceptance says that another resource decides about a cluster.
func foreignAcceptance(host string, object managedCluster) string {
	return fmt.Sprintf("On the hub %s another Terraform resource, in this or another state, decides about the "+
		"cluster: it has set hubAcceptsClient = %t (its mark, the annotation %s, is %s).",
		host, object.Spec.AcceptsClient(), attribute.AcceptanceOwnerAnnotation, acceptanceMark(object))
}

const acceptanceRemedy = "Remove the resource here (terraform state rm), or take the decision over with adopt = true."

// apply writes the decision onto the hub's record of the cluster. The UID keeps a cluster
// that was just deleted from being re-created.
func apply(
	ctx context.Context, client *kube.Client, values attribute.Values, object managedCluster, mark string, dryRun bool,
) (managedCluster, error) {
	accept, forces := values.Bool("accepted"), !values.IsSet("force_conflicts") || values.Bool("force_conflicts")
	applied := &clusterv1.ManagedCluster{}
	applied.Name, applied.UID = object.Name, object.UID
	applied.Annotations = map[string]string{attribute.AcceptanceOwnerAnnotation: mark}
	applied.Spec.HubAcceptsClient = &accept
	options := kube.ApplyOptions{Manager: hub.AcceptanceManager, Force: forces, DryRun: dryRun}
	return applied, client.Apply(ctx, applied, options)
}

// isMet reports whether the hub's record has the decision already.
func isMet(values attribute.Values, object managedCluster) bool {
	accepts := object.Spec.HubAcceptsClient
	return accepts != nil && *accepts == values.Bool("accepted")
}

// planAcceptance asks the hub what would come of the decision, if the cluster is there.
func planAcceptance(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() || resp.Plan.Raw.Equal(req.State.Raw) || !req.Config.Raw.IsFullyKnown() {
		return false
	}
	client := r.Hub.PlanClient()
	if client == nil || r.Hub.HasWritten() {
		return false
	}
	var plan types.Object
	resp.Diagnostics.Append(resp.Plan.Get(ctx, &plan)...)
	claim := crud.ClaimOf(ctx, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return false
	}
	values, live := attribute.Values(plan.Attributes()), &clusterv1.ManagedCluster{}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	name := values.Text("managed_cluster")
	if err := client.Get(ctx, live, "", name); err != nil {
		r.Hub.DidNotAnswer(err) // Or the cluster is still to be made.
		return false
	}
	if isMet(values, live) || acceptanceIsForeign(live, claim) {
		return false
	}
	if _, err := apply(ctx, client, values, live, "planned", true); err != nil {
		r.Refused(ctx, resp, client, crud.Owned{
			What:   fmt.Sprintf("the acceptance of managed cluster %q", name),
			Places: map[string]string{"spec.hubAcceptsClient": "accepted", cluster.RefusedAcceptance: "accepted"},
		}, "change", err)
	}
	return false
}

// warnOfOwner warns when another resource decides about the cluster by now.
func warnOfOwner(ctx context.Context, c *acceptance) {
	if claim := crud.ClaimOf(ctx, c.Private, c.Diagnostics); acceptanceIsForeign(c.Object, claim) {
		c.Diagnostics.AddWarning("Taken over by another owner: "+c.What, foreignAcceptance(
			c.Hub.Client(c.Diagnostics).Host(), c.Object)+" This resource no longer changes it. "+acceptanceRemedy)
	}
}

// deny withdraws the acceptance, if it is the resource's own. It does not wait for the
// consequences: the hub keeps a denied agent's rights to works until these are gone,
// which may be never when the cluster is.
func deny(ctx context.Context, c *acceptance) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	name := c.Keys[0]
	err := c.Client.Get(ctx, c.Object, "", name)
	if err == nil {
		if acceptanceIsForeign(c.Object, crud.ClaimOf(ctx, c.Private, c.Diagnostics)) {
			c.Diagnostics.AddWarning("Not denied: "+c.What, foreignAcceptance(c.Client.Host(), c.Object)+
				" It was left as it is and only removed from this state.")
			return
		}
		err = c.Client.MergePatch(ctx, c.Object, hub.AcceptanceManager, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{attribute.AcceptanceOwnerAnnotation: nil}},
			"spec":     map[string]any{"hubAcceptsClient": false},
		})
	}
	if err != nil && !kube.IsNotFound(err, name) {
		hub.AddAPIError(c.Diagnostics, c.Client, fmt.Sprintf("deny managed cluster %q", name), err)
	}
}

// ownsDecision refuses to change the decision of another resource. A creation takes one
// over that says the same, with a warning.
func ownsDecision(c *acceptance, claim crud.Claim) bool {
	switch {
	case !acceptanceIsForeign(c.Object, claim) || c.Plan.Bool("adopt"):
		return true
	case c.Prior == nil && isMet(c.Plan, c.Object):
		c.Diagnostics.AddWarning("An acceptance was taken over from another Terraform resource",
			foreignAcceptance(c.Client.Host(), c.Object)+" It says the same as this one. If that resource is still "+
				"in a state, remove it there with terraform state rm, so that its destruction does not deny the "+
				"cluster. If its state is lost, nothing more is needed.")
		return true
	}
	c.Diagnostics.AddError("Taken over by another owner: "+c.What,
		foreignAcceptance(c.Client.Host(), c.Object)+"\n\nNothing was changed. "+acceptanceRemedy)
	return false
}

// decide waits for the cluster and writes hubAcceptsClient. It returns false after
// an error.
func decide(ctx context.Context, c *acceptance) bool {
	name, doing := c.Keys[0], "deny"
	if c.Plan.Bool("accepted") {
		doing = "accept"
	}
	doing = fmt.Sprintf("%s managed cluster %q", doing, name)
	err := c.Client.Wait(ctx, c.Object, "", name, func(exists bool) (bool, error) { return exists, nil })
	if hub.IsTimeout(err) {
		c.Diagnostics.AddError(fmt.Sprintf("There is no managed cluster %q", name),
			fmt.Sprintf("The hub %s had no ManagedCluster %q for %s, so it could not be accepted. Create it with "+
				"muster_managed_cluster and refer to that resource's name here, or install an agent that registers "+
				"it. The clusters that the hub knows: kubectl get managedclusters", c.Client.Host(), name, c.Timeout))
		return false
	}
	if err == nil {
		var claim crud.Claim
		if c.Private != nil {
			claim = crud.ClaimOf(ctx, c.Private, c.Diagnostics)
		}
		if !ownsDecision(c, claim) {
			return false
		}
		claim = claim.Writing()
		if !isMet(c.Plan, c.Object) || acceptanceMark(c.Object) != claim.Owner {
			c.Object, err = apply(ctx, c.Client, c.Plan, c.Object, claim.Owner, false)
		}
		if err == nil {
			crud.KeepClaim(ctx, c.NewPrivate, claim, c.Diagnostics)
			return true
		}
	}
	hub.AddAPIError(c.Diagnostics, c.Client, doing, err)
	return false
}

// follow waits until the hub has acted on the decision, and sees to the certificate
// request of a cluster that is accepted.
func follow(ctx context.Context, c *acceptance) {
	if !c.Plan.Bool("accepted") {
		followDenial(ctx, c)
		return
	}
	name := c.Keys[0]
	granted := func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("it was deleted meanwhile")
		}
		return meta.IsStatusConditionTrue(c.Object.Status.Conditions, cluster.ConditionHubAccepted), nil
	}
	if done, _ := granted(true); !done {
		err := c.Client.Wait(ctx, c.Object, "", name, granted)
		if hub.IsTimeout(err) {
			c.Diagnostics.AddError(fmt.Sprintf("The hub has not acted on the acceptance of managed cluster %q", name),
				fmt.Sprintf("hubAcceptsClient is true, but after %s the hub's registration controller has not granted "+
					"the cluster its rights. Conditions:\n%s\n\nCheck that the controller runs. Next:\n  kubectl "+
					"describe managedcluster %s",
					c.Timeout, hub.DescribeConditions(c.Object.Status.Conditions, time.Now()), name))
			return
		}
		if err != nil {
			hub.AddAPIError(c.Diagnostics, c.Client, "wait for "+c.What, err)
			return
		}
	}
	if meta.IsStatusConditionTrue(c.Object.Status.Conditions, cluster.ConditionJoined) {
		return
	}
	approve := c.Plan.Bool("approve_csr")
	if !c.Plan.IsSet("approve_csr") {
		byItself, err := c.Hub.Has(ctx, c.Client, hubinfo.BoundBootstrapApproval)
		if err != nil {
			hub.AddAPIError(c.Diagnostics, c.Client, "find out whether the hub approves certificate requests", err)
			return
		}
		approve = !byItself
	}
	if approve {
		approveRequests(ctx, c)
	}
}

// denialPatience is how long a denial is waited for that works may hold up.
const denialPatience = 15 * time.Second

// followDenial waits until the hub has withdrawn the rights of a cluster that
// it had accepted. The agent keeps those to its works until none is left, which
// may be never, so that is only a warning.
func followDenial(ctx context.Context, c *acceptance) {
	withdrawn := func(exists bool) (bool, error) {
		return !exists || !meta.IsStatusConditionTrue(c.Object.Status.Conditions, cluster.ConditionHubAccepted), nil
	}
	if done, _ := withdrawn(true); done {
		return
	}
	name := c.Keys[0]
	bounded, cancel := context.WithTimeout(ctx, min(denialPatience, c.Timeout))
	defer cancel()
	err := c.Client.Wait(bounded, c.Object, "", name, withdrawn)
	switch {
	case hub.IsTimeout(err):
		c.Diagnostics.AddWarning(fmt.Sprintf("Managed cluster %q is denied and still has works", name),
			fmt.Sprintf("Its agent has lost all rights except those to the ManifestWorks in its namespace. It keeps "+
				"these until the works are gone, to clean up after them. Delete them to make the denial complete:\n"+
				"  kubectl delete manifestworks -n %s --all", name))
	case err != nil:
		hub.AddAPIError(c.Diagnostics, c.Client, fmt.Sprintf("wait for the denial of managed cluster %q", name), err)
	}
}
