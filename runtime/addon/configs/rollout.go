package configs

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// RolloutStatus is how far a ManagedClusterAddOn has come with the configurations
// that count for it.
//
// It has yet to apply them when its status names other ones, in another order, or
// with other hashes; an entry without a desired configuration is another one. It is
// done when it has applied all of them last. In between its condition Progressing
// says so, and since when: without a time no deadline is counted.
func RolloutStatus(a *v1alpha1.ManagedClusterAddOn, want Set) rollout.ClusterStatus {
	out := rollout.ClusterStatus{Cluster: a.Namespace, Status: rollout.ToApply}
	have := a.Status.ConfigReferences
	if len(have) != len(want) {
		return out
	}
	applied := true
	for i, r := range have {
		if r.DesiredConfig == nil || !isDesired(r, want[i]) {
			return out
		}
		applied = applied && apiequality.Semantic.DeepEqual(r.DesiredConfig, r.LastAppliedConfig)
	}
	progressing := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionProgressing)
	reason := ""
	if progressing != nil {
		reason = progressing.Reason
	}
	switch {
	case applied:
		out.Status = rollout.Succeeded
		if reason == addon.ReasonCompleted {
			out.Since = progressing.LastTransitionTime.Time
		}
	case reason == addon.ReasonFailed:
		out.Status, out.Since = rollout.Failed, progressing.LastTransitionTime.Time
	case reason == addon.ReasonProgressing:
		out.Status, out.Since = rollout.Progressing, progressing.LastTransitionTime.Time
	default:
		out.Status = rollout.Progressing
	}
	return out
}

func isDesired(r v1alpha1.ConfigReference, c Config) bool {
	return r.ConfigGroupResource == c.ConfigGroupResource && r.DesiredConfig.ConfigReferent == c.ConfigReferent && r.DesiredConfig.SpecHash == c.SpecHash
}

// DefaultReferences are the entries of a ClusterManagementAddOn's status for its
// defaults, in the order of the spec. Hashes that are known stay.
func DefaultReferences(a *v1alpha1.ClusterManagementAddOn) []v1alpha1.DefaultConfigReference {
	known := KnownIn(a.Status)
	var out []v1alpha1.DefaultConfigReference
	for _, c := range Defaults(a.Spec) {
		out = append(out, v1alpha1.DefaultConfigReference{
			ConfigGroupResource: c.ConfigGroupResource,
			DesiredConfig:       &v1alpha1.ConfigSpecHash{ConfigReferent: c.ConfigReferent, SpecHash: known(c)},
		})
	}
	return out
}

// Progressions are the entries of a ClusterManagementAddOn's status for the
// placements that install it, in the order of the spec. The strategy Manual has
// none.
//
// An entry goes on when all of its configurations were in the former one, and
// starts again when one was added or replaced: then nothing is known to be applied
// or good. Upstream forgets the hashes, too, until they are computed again, so that
// for a moment nothing is known of the clusters' configurations;
// here those of objects that are known stay.
func Progressions(a *v1alpha1.ClusterManagementAddOn) []v1alpha1.InstallProgression {
	if a.Spec.InstallStrategy.Type != v1alpha1.InstallStrategyPlacements {
		return nil
	}
	known := KnownIn(a.Status)
	defaults := Set(nil).Override(Named(Defaults(a.Spec), known))
	var out []v1alpha1.InstallProgression
	for _, p := range a.Spec.InstallStrategy.Placements {
		next := v1alpha1.InstallProgression{PlacementRef: p.PlacementRef}
		for _, c := range defaults.Override(Named(p.Configs, known)) {
			next.ConfigReferences = append(next.ConfigReferences, v1alpha1.InstallConfigReference{
				ConfigGroupResource: c.ConfigGroupResource,
				DesiredConfig:       &v1alpha1.ConfigSpecHash{ConfigReferent: c.ConfigReferent, SpecHash: c.SpecHash},
			})
		}
		if old := progressionOf(a.Status, p.PlacementRef); old != nil {
			goOn(&next, old)
		}
		out = append(out, next)
	}
	return out
}

// goOn gives a progression what the former one has reached, if it is about the same.
func goOn(next, old *v1alpha1.InstallProgression) {
	kept := make([]v1alpha1.InstallConfigReference, len(next.ConfigReferences))
	for i, r := range next.ConfigReferences {
		at := slices.IndexFunc(old.ConfigReferences, func(o v1alpha1.InstallConfigReference) bool {
			return o.DesiredConfig != nil && o.ConfigGroupResource == r.ConfigGroupResource && o.DesiredConfig.ConfigReferent == r.DesiredConfig.ConfigReferent
		})
		if at < 0 {
			return
		}
		kept[i] = *old.ConfigReferences[at].DeepCopy()
	}
	if len(kept) > 0 {
		next.ConfigReferences = kept
	}
	next.Conditions = slices.Clone(old.Conditions)
}

func progressionOf(status v1alpha1.ClusterManagementAddOnStatus, placement v1alpha1.PlacementRef) *v1alpha1.InstallProgression {
	for i := range status.InstallProgressions {
		if status.InstallProgressions[i].PlacementRef == placement {
			return &status.InstallProgressions[i]
		}
	}
	return nil
}

// KnownIn returns the hashes that a ClusterManagementAddOn's status knows. The
// add-on's manager writes them there.
func KnownIn(status v1alpha1.ClusterManagementAddOnStatus) func(v1alpha1.AddOnConfig) string {
	hashes := map[v1alpha1.AddOnConfig]string{}
	note := func(kind v1alpha1.ConfigGroupResource, desired *v1alpha1.ConfigSpecHash, empty bool) {
		if desired != nil && (empty || desired.SpecHash != "") {
			hashes[v1alpha1.AddOnConfig{ConfigGroupResource: kind, ConfigReferent: desired.ConfigReferent}] = desired.SpecHash
		}
	}
	for _, p := range status.InstallProgressions {
		for _, r := range p.ConfigReferences {
			note(r.ConfigGroupResource, r.DesiredConfig, false)
		}
	}
	for _, r := range status.DefaultConfigReferences {
		note(r.ConfigGroupResource, r.DesiredConfig, true) // its manager may know that it is gone
	}
	return func(c v1alpha1.AddOnConfig) string { return hashes[c] }
}

// SetHashes sets the hash of each configuration in the status for which hash has an
// answer.
func SetHashes(status *v1alpha1.ClusterManagementAddOnStatus, hash func(v1alpha1.AddOnConfig) (value string, ok bool)) {
	set := func(kind v1alpha1.ConfigGroupResource, desired *v1alpha1.ConfigSpecHash) {
		if desired == nil {
			return
		}
		if value, ok := hash(v1alpha1.AddOnConfig{ConfigGroupResource: kind, ConfigReferent: desired.ConfigReferent}); ok {
			desired.SpecHash = value
		}
	}
	for i := range status.DefaultConfigReferences {
		set(status.DefaultConfigReferences[i].ConfigGroupResource, status.DefaultConfigReferences[i].DesiredConfig)
	}
	for i := range status.InstallProgressions {
		for j := range status.InstallProgressions[i].ConfigReferences {
			r := &status.InstallProgressions[i].ConfigReferences[j]
			set(r.ConfigGroupResource, r.DesiredConfig)
		}
	}
}

// OfDefaults are the configurations of clusters that no placement installs the
// add-on in.
func OfDefaults(status v1alpha1.ClusterManagementAddOnStatus) Set {
	var out []Config
	for _, r := range status.DefaultConfigReferences {
		out = appendDesired(out, r.ConfigGroupResource, r.DesiredConfig)
	}
	return Set(nil).Override(out)
}

// OfProgression are the configurations of a placement's clusters.
func OfProgression(p v1alpha1.InstallProgression) Set {
	var out []Config
	for _, r := range p.ConfigReferences {
		out = appendDesired(out, r.ConfigGroupResource, r.DesiredConfig)
	}
	return Set(nil).Override(out)
}

// appendDesired skips entries without a desired configuration: upstream's manager
// ends itself when it meets one.
func appendDesired(out []Config, kind v1alpha1.ConfigGroupResource, desired *v1alpha1.ConfigSpecHash) []Config {
	if desired == nil {
		return out
	}
	return append(out, Config{
		AddOnConfig: v1alpha1.AddOnConfig{ConfigGroupResource: kind, ConfigReferent: desired.ConfigReferent}, SpecHash: desired.SpecHash,
	})
}
