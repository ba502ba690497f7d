package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Where a configuration is used. One that goes before the add-ons that use it leaves
// these without their manifests: their pre-delete jobs can't run, and what waits for
// those waits for good.

// usage is that of one configuration.
type usage struct{ config v1alpha1.AddOnConfig }

// by reports whether an add-on in a cluster uses the configuration: wants it, or has
// it.
func (u usage) by(a *v1alpha1.ManagedClusterAddOn) bool {
	return slices.Contains(a.Spec.Configs, u.config) || slices.ContainsFunc(a.Status.ConfigReferences, func(r v1alpha1.ConfigReference) bool {
		is := func(c *v1alpha1.ConfigSpecHash) bool { return c != nil && c.ConfigReferent == u.config.ConfigReferent }
		return r.ConfigGroupResource == u.config.ConfigGroupResource && (is(r.DesiredConfig) || is(r.LastAppliedConfig))
	})
}

// untilUnused waits until nothing uses the configuration, and reports whether it may
// go. Of one that is another owner's by now nothing has to be waited for. object is an
// empty one of its kind.
func (u usage) untilUnused(
	ctx context.Context, r *crud.Resource, what string, timeout time.Duration, was crud.PrivateReader, object kube.Object, diags *diag.Diagnostics,
) bool {
	client := r.Hub.WriteClient(diags)
	if client == nil {
		return false
	}
	if err := client.Get(ctx, object, u.config.Namespace, u.config.Name); err != nil || !crud.ClaimOf(ctx, was, diags).Holds(object) {
		return true // The deletion will tell.
	}
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var users []string
	err := client.WaitObjects(waiting, &v1alpha1.ManagedClusterAddOnList{}, &v1alpha1.ManagedClusterAddOn{}, kube.ListOptions{}, func(all map[string]kube.Object) (bool, error) {
		users = users[:0]
		for _, object := range all {
			if a, ok := object.(*v1alpha1.ManagedClusterAddOn); ok && u.by(a) {
				users = append(users, describeUser(a))
			}
		}
		return len(users) == 0, nil
	})
	switch {
	case err == nil, apierrors.IsForbidden(err) && len(users) == 0, kube.IsKindNotServed(err):
		return true // Who may not see them can't be asked to wait for them.
	case (hub.IsTimeout(err) || apierrors.IsForbidden(err)) && len(users) > 0:
		diags.AddError("Still in use: "+what, fmt.Sprintf("%s after the destroy began, these add-ons in clusters of "+
			"the hub %s still used it:\n%s\n\n"+
			"It was left, because an add-on without its configuration can neither run nor be removed. "+
			"Remove it from their configs, or remove them, and apply again when the rollout or the removal is through.",
			attribute.ShortDuration(time.Since(began).Round(time.Second)), client.Host(), listUsers(users)))
	default:
		hub.AddAPIError(diags, client, "find out whether "+what+" is in use", err)
	}
	return false
}

func describeUser(a *v1alpha1.ManagedClusterAddOn) string {
	text := fmt.Sprintf("%s in the cluster %s", a.Name, a.Namespace)
	if a.DeletionTimestamp != nil {
		text += ", which is being removed: kubectl describe managedclusteraddon -n " + a.Namespace + " " + a.Name
	}
	return text
}

// shownUsers is how many add-ons in clusters a message lists.
const shownUsers = 10

func listUsers(users []string) string {
	slices.Sort(users)
	return "  " + strings.Join(text.First(users, shownUsers), "\n  ")
}
