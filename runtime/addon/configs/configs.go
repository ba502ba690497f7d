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
	"slices"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
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
