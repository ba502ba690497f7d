package configs

import (
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// For are the configurations that count for a ManagedClusterAddOn: those of its
// placement, or the defaults, overridden by its own. known returns the hashes of its
// own; those of kinds that it does not override are in base.
func For(a *v1alpha1.ManagedClusterAddOn, base Set, known func(v1alpha1.AddOnConfig) string) Set {
	if len(a.Spec.Configs) == 0 {
		return base
	}
	return base.Override(Named(a.Spec.Configs, known))
}

// KnownTo returns the hashes that a ManagedClusterAddOn's status knows. The
// add-on's manager writes them there for the configurations of its spec.
func KnownTo(a *v1alpha1.ManagedClusterAddOn) func(v1alpha1.AddOnConfig) string {
	return func(c v1alpha1.AddOnConfig) string {
		for _, r := range a.Status.ConfigReferences {
			if d := r.DesiredConfig; d != nil && r.ConfigGroupResource == c.ConfigGroupResource && d.ConfigReferent == c.ConfigReferent {
				return d.SpecHash
			}
		}
		return ""
	}
}

// References are the entries of a ManagedClusterAddOn's status for the
// configurations that count. An entry that remains keeps what it says of the
// generation and of what was applied last.
//
// Name and namespace are repeated outside the desired configuration: older
// managers read them there.
func References(have []v1alpha1.ConfigReference, want Set) []v1alpha1.ConfigReference {
	if len(want) == 0 {
		return nil
	}
	old := map[v1alpha1.AddOnConfig]v1alpha1.ConfigReference{}
	for _, r := range have {
		if r.DesiredConfig != nil {
			old[v1alpha1.AddOnConfig{ConfigGroupResource: r.ConfigGroupResource, ConfigReferent: r.DesiredConfig.ConfigReferent}] = r
		}
	}
	out := make([]v1alpha1.ConfigReference, 0, len(want))
	for _, c := range want {
		before := old[c.AddOnConfig]
		out = append(out, v1alpha1.ConfigReference{
			ConfigGroupResource:    c.ConfigGroupResource,
			ConfigReferent:         c.ConfigReferent,
			LastObservedGeneration: before.LastObservedGeneration,
			DesiredConfig:          &v1alpha1.ConfigSpecHash{ConfigReferent: c.ConfigReferent, SpecHash: c.SpecHash},
			LastAppliedConfig:      before.LastAppliedConfig.DeepCopy(),
		})
	}
	return out
}

// Unsupported is the first configuration of a ManagedClusterAddOn's spec whose kind
// the add-on does not understand.
func Unsupported(a *v1alpha1.ManagedClusterAddOn) (kind v1alpha1.ConfigGroupResource, found bool) {
	supported := map[v1alpha1.ConfigGroupResource]bool{}
	for _, kind := range a.Status.SupportedConfigs {
		supported[kind] = true
	}
	for _, c := range a.Spec.Configs {
		if !supported[c.ConfigGroupResource] {
			return c.ConfigGroupResource, true
		}
	}
	return kind, false
}
