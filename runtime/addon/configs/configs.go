// Package configs decides which configurations count for an add-on in each
// cluster, and how far the cluster has come with them. It is pure: it reads
// nothing, and its results depend on nothing but its arguments.
//
// A configuration is an object that an add-on understands, such as an
// AddOnDeploymentConfig. Its kind is named by group and resource. For each kind
// the most specific place counts, and what it says replaces all of the less
// specific ones: the ManagedClusterAddOn, then the placement that installs the
// add-on in the cluster, then the ClusterManagementAddOn's defaults. Nothing is
// merged between places, or inside an object.
//
// The rules, hashes and words are those of Open Cluster Management, so that
// managers of add-ons that were written for it find what they expect.
package configs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// Config is a configuration that counts, and the hash of its content.
type Config struct {
	v1alpha1.AddOnConfig
	// SpecHash is empty as long as nobody has found the object.
	SpecHash string
}

// Set is the configurations that count somewhere. Kinds are in the order of their
// groups and resources; inside a kind the order is the author's, and each object is
// there once. Nobody changes a set: several clusters share one.
type Set []Config

// Override returns the set in which the kinds of by are replaced.
func (s Set) Override(by []Config) Set {
	if len(by) == 0 {
		return s
	}
	replaced := map[v1alpha1.ConfigGroupResource]bool{}
	for _, c := range by {
		replaced[c.ConfigGroupResource] = true
	}
	out := make(Set, 0, len(s)+len(by))
	for _, c := range s {
		if !replaced[c.ConfigGroupResource] {
			out = append(out, c)
		}
	}
	seen := map[v1alpha1.AddOnConfig]bool{}
	for _, c := range by {
		if !seen[c.AddOnConfig] {
			seen[c.AddOnConfig] = true
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Config) int { return compareKinds(a.ConfigGroupResource, b.ConfigGroupResource) })
	return out
}

// compareKinds orders kinds of configuration by group, then by resource.
func compareKinds(a, b v1alpha1.ConfigGroupResource) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
}

// Named are configurations as a spec names them, with their hashes as far as known
// knows them. known may be nil.
func Named(configs []v1alpha1.AddOnConfig, known func(v1alpha1.AddOnConfig) string) []Config {
	out := make([]Config, 0, len(configs))
	for _, c := range configs {
		named := Config{AddOnConfig: c}
		if known != nil {
			named.SpecHash = known(c)
		}
		out = append(out, named)
	}
	return out
}

// Defaults are the default configurations of an add-on. A kind without a default
// has none, also where a client has written the reserved name of v1beta1 as a
// name.
func Defaults(spec v1alpha1.ClusterManagementAddOnSpec) []v1alpha1.AddOnConfig {
	var out []v1alpha1.AddOnConfig
	for _, kind := range spec.SupportedConfigs {
		d := kind.DefaultConfig
		if d == nil || d.Name == "" || d.Name == addon.ReservedNoDefault {
			continue
		}
		out = append(out, v1alpha1.AddOnConfig{ConfigGroupResource: kind.ConfigGroupResource, ConfigReferent: *d})
	}
	return out
}

// SelfManaged reports whether an add-on has a manager of its own for what the hub
// does for others. As upstream, any value of the annotation but one says so, the
// empty one too.
func SelfManaged(a *v1alpha1.ClusterManagementAddOn) bool {
	lifecycle, ok := a.Annotations[addon.LifecycleAnnotation]
	return ok && lifecycle != addon.LifecycleAddOnManager
}

// TemplateKinds are the kinds of configuration of an add-on that is made from an
// AddOnTemplate, in their order.
func TemplateKinds() []v1alpha1.ConfigGroupResource {
	return []v1alpha1.ConfigGroupResource{
		{Group: addon.GroupName, Resource: addon.DeploymentConfigResource},
		{Group: addon.GroupName, Resource: addon.TemplateResource},
	}
}

// FromTemplate reports whether an add-on is made from an AddOnTemplate: the hub
// itself is the manager of such an add-on.
func FromTemplate(a *v1alpha1.ClusterManagementAddOn) bool {
	return slices.ContainsFunc(a.Spec.SupportedConfigs, func(kind v1alpha1.ConfigMeta) bool {
		return kind.Group == addon.GroupName && kind.Resource == addon.TemplateResource
	})
}

// Hash identifies the content of a configuration object: all of its top-level
// fields but apiVersion, kind, metadata and status, as JSON with sorted keys; and of an
// AddOnTemplate the override in its annotation, where it has one. The object has to be
// the one of the wire. One that has been through Go's types is another: these drop or
// add empty fields.
func Hash(object map[string]any) (string, error) {
	content := maps.Clone(object)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(content, field)
	}
	if object["kind"] == "AddOnTemplate" {
		if own := (&unstructured.Unstructured{Object: object}).GetAnnotations()[muster.OverrideAnnotation]; own != "" {
			content[muster.OverrideAnnotation] = own
		}
	}
	data, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("hash a configuration: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// SpecHashes are the hashes of configurations as works name them in an annotation:
// RESOURCE.GROUP/NAMESPACE/NAME, or RESOURCE/NAMESPACE/NAME for the core group.
func SpecHashes(references []v1alpha1.ConfigReference) map[string]string {
	out := map[string]string{}
	for _, r := range references {
		if d := r.DesiredConfig; d != nil {
			kind := schema.GroupResource{Group: r.Group, Resource: r.Resource}
			out[fmt.Sprintf("%s/%s/%s", kind, d.Namespace, d.Name)] = d.SpecHash
		}
	}
	return out
}

// SpecHashAnnotation is the annotation of a work that is made with configurations;
// without any there is none.
func SpecHashAnnotation(references []v1alpha1.ConfigReference) (value string, ok bool) {
	hashes := SpecHashes(references)
	if len(hashes) == 0 {
		return "", false
	}
	data, err := json.Marshal(hashes)
	return string(data), err == nil // maps of strings can be marshalled
}

// Matches reports whether a work with an annotation, or without one, is made with
// the desired configurations. A hash that is not known, on either side, matches
// nothing.
func Matches(annotation string, present bool, references []v1alpha1.ConfigReference) bool {
	if !present {
		return len(references) == 0
	}
	var have map[string]string
	if err := json.Unmarshal([]byte(annotation), &have); err != nil {
		return false
	}
	for _, hash := range have {
		if hash == "" {
			return false
		}
	}
	for _, r := range references {
		if r.DesiredConfig == nil || r.DesiredConfig.SpecHash == "" {
			return false
		}
	}
	return maps.Equal(have, SpecHashes(references))
}

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

// Content identifies what an add-on rolls out by its placements: the configuration objects
// of each, and their content.
func Content(progressions []v1alpha1.InstallProgression) string {
	h := sha256.New()
	for _, p := range progressions {
		for _, r := range p.ConfigReferences {
			if d := r.DesiredConfig; d != nil {
				_, _ = fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%s\x00%s\x00%s\x00", p.Namespace, p.Name, r.Group,
					r.Resource,
					d.Namespace, d.Name, d.SpecHash)
			}
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
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
