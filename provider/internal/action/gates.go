package action

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// approveRollout is muster_approve_rollout.
func approveRollout() declaration {
	return declaration{
		name: "approve_rollout",
		description: "Approves a group of a rollout that has gates: the hub hands out to the clusters of the group " +
			"then, by the rollout strategy. The approval is for what is rolled out at present: other manifests, or " +
			"other configurations of an add-on, need one of their own. The hub notes who has approved, and when.\n\n" +
			"Gates are in the annotation `" + muster.RolloutGatesAnnotation +
			"` of a manifest work replica set or an " +
			"add-on. Approving needs the verb `" + muster.VerbApprove + "` on the object.",
		attributes: gatedAttributes(map[string]schema.Attribute{
			"group": attribute.Required("Name of the decision group to approve, its index when it has no name, or `*` "+
				"for all groups.", stringvalidator.LengthAtLeast(1)),
		}),
		doing: "approve a group of the rollout of", to: []string{"namespace", "name", "group"},
		do: approve,
	}
}

// pauseRollout is muster_pause_rollout.
func pauseRollout() declaration {
	return declaration{
		name: "pause_rollout",
		description: "Pauses the rollout of a manifest work replica set or an add-on: nothing more is handed out " +
			"until it goes on. Clusters that have the change keep it, and what is under way there ends.\n\n" +
			"The action puts the annotation `" + muster.RolloutPausedAnnotation + "` on the object.",
		attributes: gatedAttributes(map[string]schema.Attribute{
			"undo": attribute.OptionalFlag("Whether to let a paused rollout go on instead."),
		}),
		doing: "pause the rollout of", to: []string{"namespace", "name"},
		do: pause,
	}
}

// gatedAttributes are those that name a replica set or an add-on, and others.
func gatedAttributes(others map[string]schema.Attribute) map[string]schema.Attribute {
	others["namespace"] = attribute.Optional("Namespace of the replica set. Without it, `name` is that of an add-on.",
		attribute.ValidName("namespace"))
	others["name"] = attribute.Required("Name of the replica set, or of the add-on.",
		attribute.ValidObjectName("name"))
	return others
}

// gated is an object whose rollout may have gates.
type gated struct {
	object kube.Object
	// name is what messages call it.
	name string
	// content is the digest of what it rolls out.
	content func() string
}

// findGated reads the object that an action names.
func (r *run) findGated(ctx context.Context) (gated, error) {
	namespace, name := r.Text("namespace"), r.Text("name")
	if namespace == "" {
		a := &addonv1alpha1.ClusterManagementAddOn{}
		err := r.find(ctx, a, &addonv1alpha1.ClusterManagementAddOnList{}, "add-on", "", name)
		return gated{a, "add-on " + name, func() string { return configs.Content(a.Status.InstallProgressions) }}, err
	}
	s := &workv1alpha1.ManifestWorkReplicaSet{}
	err := r.find(ctx, s, &workv1alpha1.ManifestWorkReplicaSetList{}, "replica set", namespace, name)
	return gated{s, "replica set " + namespace + "/" + name,
		func() string { return override.Content(s) }}, err
}

// annotate changes an annotation of the object that was read.
func (r *run) annotate(ctx context.Context, g gated, key string, value any) error {
	return r.client.MergePatch(ctx, g.object, requestManager, map[string]any{"metadata": map[string]any{
		"uid": g.object.GetUID(), "annotations": map[string]any{key: value},
	}})
}

func approve(ctx context.Context, r *run) error {
	g, err := r.findGated(ctx)
	if err != nil {
		return err
	}
	group := r.Text("group")
	gates, err := rollout.ReadGates(g.object.GetAnnotations())
	if err != nil {
		return refuse("The gates of "+g.name+" can't be read", "%v.", err)
	}
	if !gates.Has(group) && group != rollout.EveryGroup {
		var groups []string
		for _, x := range gates.Gates {
			if x.Window == nil {
				groups = append(groups, x.Group)
			}
		}
		advice := "It has no gates that somebody has to approve: its rollout needs no approval."
		if len(groups) > 0 {
			advice = "The groups that are to be approved are: " + text.List(groups, 10) + "."
		}
		return refuse(fmt.Sprintf("The %s has no gate before the group %q", g.name, group), "%s", advice)
	}
	content := g.content()
	if said := approvalOf(gates, group, content); said != "" {
		r.say("The group %s of %s is approved already, %s. Nothing is to be done.", group, g.name, said)
		return nil
	}
	if err := r.annotate(ctx, g, muster.ApproveRolloutAnnotation, group+"@"+content); err != nil {
		return err
	}
	gates, err = rollout.ReadGates(g.object.GetAnnotations())
	said := approvalOf(gates, group, content)
	if err != nil || said == "" {
		_ = r.annotate(ctx, g, muster.ApproveRolloutAnnotation, nil)
		return refuse(
			"The hub takes no approvals",
			"The hub %s has stored the request for an approval, and has not made "+
				"an approval of it: it is an upstream hub, or an older one of muster. Gates hold nothing back there.",
			r.client.Host(),
		)
	}
	r.say("The group %s of %s is approved, %s.", group, g.name, said)
	return nil
}

// approvalOf says which user has approved a group, and when, for a content; "" when it is not.
func approvalOf(gates rollout.Gated, group, content string) string {
	for _, a := range gates.Approvals {
		if a.Content == content && a.Group == group {
			return fmt.Sprintf("by %s at %s", a.By, a.At.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

func pause(ctx context.Context, r *run) error {
	g, err := r.findGated(ctx)
	if err != nil {
		return err
	}
	undo := r.Bool("undo")
	paused := g.object.GetAnnotations()[muster.RolloutPausedAnnotation] == "true"
	switch {
	case paused != undo:
		r.say("The rollout of %s is %s already. Nothing is to be done.", g.name,
			map[bool]string{false: "paused", true: "not paused"}[undo])
		return nil
	case undo:
		err = r.annotate(ctx, g, muster.RolloutPausedAnnotation, nil)
	default:
		err = r.annotate(ctx, g, muster.RolloutPausedAnnotation, "true")
	}
	if err == nil {
		r.say(map[bool]string{false: "The rollout of %s is paused.", true: "The rollout of %s goes on."}[undo], g.name)
	}
	return err
}
