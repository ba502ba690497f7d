package crud

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// What a plan tells of an object that is to be created and exists.

// WarnIfExists warns of an object that is to be created although it exists and is
// different. It costs a read for each new object, and nothing for others. Where
// the hub does not answer or the configuration is not known it says nothing.
func (r *Resource) WarnIfExists(ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics, wanted func(*diag.Diagnostics) (Owned, bool)) {
	if !req.State.Raw.IsNull() || req.Plan.Raw.IsNull() || !req.Config.Raw.IsFullyKnown() || diags.HasError() {
		return
	}
	client := r.Hub.PlanClient()
	if client == nil {
		return
	}
	var problems diag.Diagnostics
	o, ok := wanted(&problems)
	claim := ClaimOf(ctx, req.Private, &problems)
	if !ok || problems.HasError() {
		return // Validation or the apply will tell.
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	live := kube.Fresh(o.Write.Object)
	if err := client.Get(ctx, live, o.Write.Object.GetNamespace(), o.Write.Object.GetName()); err != nil {
		r.Hub.DidNotAnswer(err)
		return
	}
	// An object that is replaced is this resource's own.
	if live.GetDeletionTimestamp() != nil || (claim.Owner != "" && claim.Holds(live)) {
		return
	}
	differences, err := o.Write.Compare(ctx, client, live)
	if err != nil && !apierrors.IsForbidden(err) {
		r.Hub.DidNotAnswer(err)
		return
	}
	if err == nil && len(differences) == 0 {
		return
	}
	text := o.Exists(client, live, differences, time.Now())
	switch {
	case err != nil:
		diags.AddWarning("Exists already: "+o.What, fmt.Sprintf("The hub %s has %s already. The rights of this plan do not allow to compare it with this configuration; "+
			"if it differs, the apply will fail, unless adopt = true.", client.Host(), o.What))
	case o.Write.Adopt:
		diags.AddWarning("Will be taken over: "+o.What, text+" As adopt is true, the apply will overwrite that.")
	default:
		diags.AddWarning("Exists already: "+o.What, text+"\n\nThe apply will fail. "+o.ways())
	}
}
