// Package works decides which ManifestWorks an add-on has: from its manifests and the
// works that there are follows which works to create, to change and to delete. It is
// pure: its results depend on nothing but its arguments.
//
// An add-on has works in the namespace of its own cluster, and a hosted one also in
// that of its hosting cluster. Manifests that are too large for one work are spread
// over several. A manifest stays in the work that holds it: when it goes to another
// one, the object in the cluster may be deleted in between.
//
// Names, labels and annotations are those of Open Cluster Management. What others add
// to the metadata of works stays.
package works

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Place is where works of an add-on are.
type Place struct {
	// AddOn is the add-on in its cluster.
	AddOn *v1alpha1.ManagedClusterAddOn
	// Host is the hosting cluster of the works; empty for works in the add-on's own
	// cluster.
	Host string
}

// Namespace is the namespace of the works.
func (p Place) Namespace() string {
	if p.Host != "" {
		return p.Host
	}
	return p.AddOn.Namespace
}

// HookName is the name of the work that runs before the add-on is deleted.
func (p Place) HookName() string {
	if p.Host != "" {
		return addon.HostingPreDeleteWorkName(p.AddOn.Name, p.AddOn.Namespace)
	}
	return addon.PreDeleteWorkName(p.AddOn.Name)
}

// prefix begins the names of the other works.
func (p Place) prefix() string {
	if p.Host != "" {
		return addon.HostingDeployWorkName(p.AddOn.Name, p.AddOn.Namespace) + "-"
	}
	return addon.DeployWorkName(p.AddOn.Name) + "-"
}

// index is the number at the end of a work's name; ok is false for works with other
// names.
func (p Place) index(name string) (n int, ok bool) {
	text, ok := strings.CutPrefix(name, p.prefix())
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == text
}

// Owns reports whether a work is one of the add-on's in this place. The labels say
// works of the place's own add-on from those that are hosted there for other
// clusters.
func (p Place) Owns(w *workv1.ManifestWork) bool {
	hostedFor := ""
	if p.Host != "" {
		hostedFor = p.AddOn.Namespace
	}
	if w.Namespace != p.Namespace() || w.Labels[cluster.AddOnNameLabel] != p.AddOn.Name || w.Labels[addon.AddOnNamespaceLabel] != hostedFor {
		return false
	}
	_, deploys := p.index(w.Name)
	return deploys || w.Name == p.HookName()
}

// Deployed is how many works hold what the add-on has in a place as long as it is
// there.
func Deployed(p Place, have []*workv1.ManifestWork) (n int) {
	for _, w := range have {
		if _, ok := p.index(w.Name); ok && p.Owns(w) {
			n++
		}
	}
	return n
}

// metadata is what the add-on says of one of its works.
func (p Place) metadata(name string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: p.Namespace(), Name: name, Labels: map[string]string{cluster.AddOnNameLabel: p.AddOn.Name}}
	if p.Host != "" {
		m.Labels[addon.AddOnNamespaceLabel] = p.AddOn.Namespace
	} else {
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p.AddOn, v1beta1.GroupVersion.WithKind("ManagedClusterAddOn"))}
	}
	if hashes, ok := configs.SpecHashAnnotation(p.AddOn.Status.ConfigReferences); ok {
		m.Annotations = map[string]string{work.SpecHashAnnotation: hashes}
	}
	return m
}

// CheckName says why an add-on can have no works.
func CheckName(a *v1alpha1.ManagedClusterAddOn) error {
	if bad := validation.IsValidLabelValue(a.Name); len(bad) > 0 {
		return fmt.Errorf("the name of the add-on, %q (%d characters), cannot be the value of the label %s, which its works need: %s; give the add-on a shorter name",
			a.Name, len(a.Name), cluster.AddOnNameLabel, strings.Join(bad, "; "))
	}
	return nil
}

// withDefaults are options as the server stores them, so that equal ones compare equal.
func withDefaults(options []workv1.ManifestConfigOption) []workv1.ManifestConfigOption {
	out := make([]workv1.ManifestConfigOption, 0, len(options))
	for i := range options {
		o := *options[i].DeepCopy()
		if o.FeedbackScrapeType == "" {
			o.FeedbackScrapeType = workv1.FeedbackScrapeTypePoll
		}
		if s := o.UpdateStrategy; s != nil {
			if s.Type == "" {
				s.Type = workv1.UpdateStrategyTypeUpdate
			}
			if s.ServerSideApply != nil && s.ServerSideApply.FieldManager == "" {
				s.ServerSideApply.FieldManager = work.DefaultFieldManager
			}
		}
		out = append(out, o)
	}
	return out
}

// deleteOption is what becomes of the objects of a work: what the template says, and
// those that are marked stay.
func deleteOption(template *workv1.DeleteOption, manifests []manifest) *workv1.DeleteOption {
	var out workv1.DeleteOption
	if template != nil {
		out = *template.DeepCopy()
		out.TTLSecondsAfterFinished = nil // an add-on's work is never finished
	}
	if out.PropagationPolicy == "" {
		out.PropagationPolicy = workv1.DeletePropagationPolicyTypeForeground
	}
	var rules []workv1.OrphaningRule
	for _, m := range manifests {
		if m.stays != nil {
			rules = append(rules, *m.stays)
		}
	}
	if len(rules) == 0 || out.PropagationPolicy == workv1.DeletePropagationPolicyTypeOrphan {
		if template == nil {
			return nil
		}
		return &out
	}
	if out.PropagationPolicy == workv1.DeletePropagationPolicyTypeSelectivelyOrphan && out.SelectivelyOrphan != nil {
		for _, r := range out.SelectivelyOrphan.OrphaningRules {
			if !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	out.PropagationPolicy = workv1.DeletePropagationPolicyTypeSelectivelyOrphan
	out.SelectivelyOrphan = &workv1.SelectivelyOrphan{OrphaningRules: rules}
	return &out
}

// setStaying notes of the manifests that are marked to stay in the cluster by which
// rule they do.
func setStaying(manifests []manifest, objects []*unstructured.Unstructured) {
	var plurals map[schema.GroupKind]string
	for i, o := range objects {
		if _, marked := o.GetAnnotations()[addon.DeletionOrphanAnnotation]; !marked {
			continue
		}
		if plurals == nil {
			plurals = defined(objects)
		}
		kind := o.GroupVersionKind()
		manifests[i].stays = &workv1.OrphaningRule{Group: kind.Group, Resource: plural(kind, plurals), Namespace: o.GetNamespace(), Name: o.GetName()}
	}
}

// defined are the plural names of the kinds that the manifests themselves define.
func defined(objects []*unstructured.Unstructured) map[schema.GroupKind]string {
	out := map[schema.GroupKind]string{}
	for _, o := range objects {
		if k := o.GroupVersionKind(); k.Group != "apiextensions.k8s.io" || k.Kind != "CustomResourceDefinition" {
			continue
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
		if name != "" {
			out[schema.GroupKind{Group: group, Kind: kind}] = name
		}
	}
	return out
}

// plural is the plural name of a kind: as the manifests or the table of known kinds
// have it, and otherwise as it usually is.
func plural(kind schema.GroupVersionKind, defined map[schema.GroupKind]string) string {
	if name := defined[kind.GroupKind()]; name != "" {
		return name
	}
	if mapping, err := restmapper.Static().RESTMapping(kind.GroupKind()); err == nil {
		return mapping.Resource.Resource
	}
	if kind.Group == "" && kind.Kind == "Endpoints" {
		return "endpoints"
	}
	guess, _ := meta.UnsafeGuessKindToResource(kind)
	return guess.Resource
}

// Applied says whether the works of a place are applied; known is false as long as
// the agent has not reported on all of them. One that has failed counts more than the
// others, while upstream goes by the last one that it has looked at.
func Applied(p Place, have []*workv1.ManifestWork) (c metav1.Condition, known bool) {
	c.Type = addon.ConditionManifestApplied
	if p.Host != "" {
		c.Type = addon.ConditionHostingManifestApplied
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, addon.ReasonManifestsApplied, addon.MessageNoManifest
	known = true
	for _, w := range have {
		if _, deploys := p.index(w.Name); !deploys || !p.Owns(w) {
			continue
		}
		c.Message = addon.MessageManifestsApplied
		switch applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied); {
		case applied == nil || applied.Status == metav1.ConditionUnknown:
			known = false
		case applied.Status == metav1.ConditionFalse:
			c.Status, c.Reason = metav1.ConditionFalse, addon.ReasonManifestsFailed
			c.Message = fmt.Sprintf("%s: the work %s: %s", addon.MessageManifestsFailed, w.Name, why(w, *applied))
			return c, true
		}
	}
	return c, known
}

// why says why a work could not be applied: what its first object says that could not
// be, if the report has one.
func why(w *workv1.ManifestWork, applied metav1.Condition) string {
	for _, m := range w.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied); c != nil && c.Status == metav1.ConditionFalse && c.Message != "" {
			return c.Message
		}
	}
	return applied.Message
}
