package works

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
