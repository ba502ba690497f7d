package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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

// uses reports whether an add-on in a cluster uses a configuration: wants it, or has it.
func uses(x clusterAddOn, config v1alpha1.AddOnConfig) bool {
	is := func(c *v1alpha1.ConfigSpecHash) bool { return c != nil && c.ConfigReferent == config.ConfigReferent }
	return slices.Contains(x.Spec.Configs, config) ||
		slices.ContainsFunc(x.Status.ConfigReferences, func(r v1alpha1.ConfigReference) bool {
			return r.ConfigGroupResource == config.ConfigGroupResource &&
				(is(r.DesiredConfig) || is(r.LastAppliedConfig))
		})
}

// untilUnused waits, before a configuration of the add-ons' own kind resource is deleted,
// until nothing uses it, and reports whether it may go. Of one that is another owner's by
// now nothing has to be waited for.
func untilUnused[O kube.Object](ctx context.Context, c *crud.Change[O], resource string) bool {
	config := v1alpha1.AddOnConfig{ConfigGroupResource: ownKind(resource)}
	if config.Name = c.Keys[len(c.Keys)-1]; len(c.Keys) > 1 {
		config.Namespace = c.Keys[0]
	}
	client, diags, object := c.Client, c.Diagnostics, kube.Fresh(c.Object)
	err := client.Get(ctx, object, config.Namespace, config.Name)
	if err != nil || !crud.ClaimOf(ctx, c.Private, diags).Holds(object) {
		return true // The deletion will tell.
	}
	waiting, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var users []string
	list, item := &v1alpha1.ManagedClusterAddOnList{}, &v1alpha1.ManagedClusterAddOn{}
	err = client.WaitObjects(waiting, list, item, kube.ListOptions{}, func(all map[string]kube.Object) (bool, error) {
		users = users[:0]
		for _, object := range all {
			if x, ok := object.(clusterAddOn); ok && uses(x, config) {
				users = append(users, describeUser(x))
			}
		}
		return len(users) == 0, nil
	})
	switch {
	case err == nil, apierrors.IsForbidden(err) && len(users) == 0, kube.IsKindNotServed(err):
		return true // Who may not see them can't be asked to wait for them.
	case (hub.IsTimeout(err) || apierrors.IsForbidden(err)) && len(users) > 0:
		diags.AddError("Still in use: "+c.What, fmt.Sprintf("%s after the destroy began, these add-ons in clusters of "+
			"the hub %s still used it:\n  %s\n\n"+
			"It was left, because an add-on without its configuration can neither run nor be removed. "+
			"Remove it from their configs, or remove them, and apply again when the rollout or the removal is through.",
			attribute.ShortDuration(time.Since(c.Began).Round(time.Second)), client.Host(),
			strings.Join(text.First(attribute.Sorted(users), shownUsers), "\n  ")))
	default:
		hub.AddAPIError(diags, client, "find out whether "+c.What+" is in use", err)
	}
	return false
}

func describeUser(x clusterAddOn) string {
	text := fmt.Sprintf("%s in the cluster %s", x.Name, x.Namespace)
	if x.DeletionTimestamp != nil {
		text += ", which is being removed: kubectl describe managedclusteraddon -n " + x.Namespace + " " + x.Name
	}
	return text
}

// shownUsers is how many add-ons in clusters a message lists.
const shownUsers = 10
