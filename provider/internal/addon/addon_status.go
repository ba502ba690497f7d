package addon

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// What the hub reports about an add-on. The values are the framework's, for they are
// unknown while planning.

type addOnStatusModel struct {
	Progressions      types.List `tfsdk:"install_progressions"`
	RolledOut         types.Bool `tfsdk:"rolled_out"`
	InstalledClusters types.List `tfsdk:"installed_clusters"`
}

func progressionType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"namespace": types.StringType, "name": types.StringType, "completed": types.BoolType, "reason": types.StringType, "message": types.StringType,
	}}
}

// report takes over what the add-on itself tells.
func (m *addOnStatusModel) report(object *v1alpha1.ClusterManagementAddOn) {
	progressions := []attr.Value{}
	for _, p := range object.Status.InstallProgressions {
		reason, message := "", ""
		if c := meta.FindStatusCondition(p.Conditions, addon.ConditionProgressing); c != nil {
			reason, message = c.Reason, c.Message
		}
		progressions = append(progressions, types.ObjectValueMust(progressionType().AttrTypes, map[string]attr.Value{
			"namespace": types.StringValue(p.Namespace), "name": types.StringValue(p.Name),
			"completed": types.BoolValue(completed(p)), "reason": types.StringValue(reason), "message": types.StringValue(message),
		}))
	}
	m.Progressions = types.ListValueMust(progressionType(), progressions)
	m.RolledOut = types.BoolValue(len(notRolledOut(object, nil)) == 0 && len(object.Status.InstallProgressions) > 0)
}

// reportPlanned is report for what the plan has left open. What it has shown stays.
func (m *addOnStatusModel) reportPlanned(object *v1alpha1.ClusterManagementAddOn) {
	if m.Progressions.IsUnknown() {
		m.report(object)
		m.InstalledClusters = types.ListNull(types.StringType)
	}
}

// completed reports whether all clusters of a placement have what it wants.
func completed(p v1alpha1.InstallProgression) bool {
	c := meta.FindStatusCondition(p.Conditions, addon.ConditionProgressing)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == addon.ReasonCompleted &&
		!slices.ContainsFunc(p.ConfigReferences, func(r v1alpha1.InstallConfigReference) bool {
			return !attribute.Same(r.DesiredConfig, r.LastAppliedConfig)
		})
}

// noneOfItsOwn is the message of a placement all of whose clusters belong to later ones.
var noneOfItsOwn = regexp.MustCompile(`^selected clusters [1-9]\d*\. configured addons 0/0 progressing\.\.\., 0 failed 0 timeout`)

// hasNoneOfItsOwn reports whether later placements configure all of a placement's
// clusters, by the message of its condition. The hub never calls it completed then, and
// there is nothing to wait for.
func hasNoneOfItsOwn(message string) bool { return noneOfItsOwn.MatchString(message) }

// hashesOf are the hashes of configuration objects as they are now, as far as they were
// read.
type hashesOf map[v1alpha1.AddOnConfig]string

// notRolledOut lists the placements in which the present configuration is not completed,
// each with the reason in words. What the hub reports is about the present when it names
// the configurations of the specification, with the hashes that these have: its
// conditions note no generation.
func notRolledOut(object *v1alpha1.ClusterManagementAddOn, hashes hashesOf) []heldPlacement {
	var held []heldPlacement
	for i, want := range configs.Progressions(object) {
		at := slices.IndexFunc(object.Status.InstallProgressions, func(p v1alpha1.InstallProgression) bool { return p.PlacementRef == want.PlacementRef })
		h := heldPlacement{strategy: object.Spec.InstallStrategy.Placements[i]}
		if at < 0 {
			h.why = "the hub has not reported on it yet"
			held = append(held, h)
			continue
		}
		have := object.Status.InstallProgressions[at]
		c := meta.FindStatusCondition(have.Conditions, addon.ConditionProgressing)
		switch {
		case !sameReferences(want, have, hashes):
			h.why = "the hub has not reported on its present configuration yet"
		case c == nil:
			h.why = "the hub has not reported on it yet"
		case !completed(have) && !hasNoneOfItsOwn(c.Message):
			h.why = c.Reason + ": " + c.Message
		default:
			continue
		}
		held = append(held, h)
	}
	return held
}

// heldPlacement is a placement that is not done, and why.
type heldPlacement struct {
	strategy v1alpha1.PlacementStrategy
	why      string
}

// sameReferences reports whether a progression is about the configurations that are
// wanted. One that does not exist has no hash, and holds the rollout up.
func sameReferences(want, have v1alpha1.InstallProgression, hashes hashesOf) bool {
	return slices.EqualFunc(want.ConfigReferences, have.ConfigReferences, func(x, y v1alpha1.InstallConfigReference) bool {
		if y.DesiredConfig == nil || x.ConfigGroupResource != y.ConfigGroupResource || x.DesiredConfig.ConfigReferent != y.DesiredConfig.ConfigReferent {
			return false
		}
		hash, known := hashes[v1alpha1.AddOnConfig{ConfigGroupResource: x.ConfigGroupResource, ConfigReferent: x.DesiredConfig.ConfigReferent}]
		return !known || hash == y.DesiredConfig.SpecHash
	})
}

// clustersOf are the clusters of an add-on that was read, as installed_clusters has
// them.
func clustersOf(addOns []v1alpha1.ManagedClusterAddOn) types.List {
	clusters := []string{}
	for _, a := range addOns {
		clusters = append(clusters, a.Namespace)
	}
	return attribute.StringListValue(clusters)
}

// progress is what the hub counts in the message of a progression.
var progress = regexp.MustCompile(`configured addons (\d+)/(\d+) (?:progressing\.\.\.|completed with no errors), (\d+) failed (\d+) timeout`)

// isStopped reports whether a rollout goes on in no placement: in each that is not
// completed clusters have failed, and none is under way.
func isStopped(object *v1alpha1.ClusterManagementAddOn, addOns map[string]*v1alpha1.ManagedClusterAddOn) bool {
	done, busy, stopped := 0, 0, false
	for _, x := range addOns {
		if isConfigured(x) && isDone(x) {
			done++
		}
	}
	for _, p := range object.Status.InstallProgressions {
		c := meta.FindStatusCondition(p.Conditions, addon.ConditionProgressing)
		if c == nil {
			return false
		}
		counts := progress.FindStringSubmatch(c.Message)
		if counts == nil {
			return false
		}
		busy += number(counts[1]) // the hub counts those that are done, too
		if completed(p) || hasNoneOfItsOwn(c.Message) {
			continue
		}
		if number(counts[3])+number(counts[4]) == 0 {
			return false
		}
		stopped = true
	}
	return stopped && busy <= done
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // digits, as the expression has it
	return n
}

// isConfigured reports whether an add-on in a cluster has been told its present
// configuration.
func isConfigured(x *v1alpha1.ManagedClusterAddOn) bool {
	return meta.IsStatusConditionTrue(x.Status.Conditions, addon.ConditionConfigured)
}

// isDone reports whether an add-on in a cluster has applied what it was told.
func isDone(x *v1alpha1.ManagedClusterAddOn) bool {
	return !slices.ContainsFunc(x.Status.ConfigReferences, func(r v1alpha1.ConfigReference) bool { return !attribute.Same(r.DesiredConfig, r.LastAppliedConfig) })
}
