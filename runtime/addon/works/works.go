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
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
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

// manifest is an object on its way into a work.
type manifest struct {
	key  key
	raw  workv1.Manifest
	size int
	// at is its place among the add-on's manifests.
	at int
	// stays names the object where it is to stay in the cluster.
	stays *workv1.OrphaningRule
}

// limits are the sizes of works.
type limits struct {
	// full is what a work has to stay below that a manifest is added to.
	full int
	// greatest is what a work may have when its manifests grow.
	greatest int
}

// limitsFor are those under the hub's limit for the manifests of a work: a fifth of
// it is left for manifests that grow.
func limitsFor(greatest int) limits { return limits{full: greatest / 5 * 4, greatest: greatest} }

// bin is a work that there is, or one to make.
type bin struct {
	have *workv1.ManifestWork
	// frozen says that the work is being deleted. What it held waits for its end:
	// another work with the same objects would lose them to its cleanup.
	frozen    bool
	manifests []manifest
	size      int
}

func (b *bin) add(m manifest) {
	b.manifests = append(b.manifests, m)
	b.size += m.size
}

// manifestsOf turns objects into manifests.
func manifestsOf(objects []*unstructured.Unstructured, l limits) ([]manifest, error) {
	out := make([]manifest, 0, len(objects))
	for i, o := range objects {
		raw, err := o.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("the manifest %s: %w", describe(o), err)
		}
		if raw[len(raw)-1] == '\n' {
			raw = raw[:len(raw)-1]
		}
		m := manifest{key: keyOf(o), raw: workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}, at: i}
		if m.size = m.raw.Size(); m.size > l.greatest {
			return nil, fmt.Errorf("the manifest %s has %d bytes, more than the %d that a work may have: make it smaller, or have the hub take more with --manifest-limit",
				describe(o), m.size, l.greatest)
		}
		out = append(out, m)
	}
	setStaying(out, objects)
	return out, nil
}

// distribute puts manifests into works. have are the works that there are, by their
// indexes. Bins may be left without manifests.
func distribute(manifests []manifest, have map[int]*workv1.ManifestWork, l limits) map[int]*bin {
	bins := map[int]*bin{}
	holder := map[key]*bin{}
	for _, n := range slices.Sorted(maps.Keys(have)) {
		w := have[n]
		b := &bin{have: w, frozen: !w.DeletionTimestamp.IsZero()}
		bins[n] = b
		for _, k := range keysOf(w.Spec) {
			if holder[k] == nil {
				holder[k] = b
			}
		}
	}
	var homeless []manifest
	for _, m := range manifests {
		if b := holder[m.key]; b != nil {
			b.add(m)
		} else {
			homeless = append(homeless, m)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(bins)) {
		homeless = append(homeless, bins[n].shrink(l)...)
	}
	// The largest first, as they find a place least easily.
	slices.SortStableFunc(homeless, func(a, b manifest) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.at, b.at))
	})
	for _, m := range homeless {
		room(bins, m, l).add(m)
	}
	for _, b := range bins {
		slices.SortFunc(b.manifests, func(a, b manifest) int { return cmp.Compare(a.at, b.at) })
	}
	return bins
}

// room is the first work that a manifest fits into, or one more with the lowest index
// that is free.
func room(bins map[int]*bin, m manifest, l limits) *bin {
	for _, n := range slices.Sorted(maps.Keys(bins)) {
		if bins[n].takes(m, l) {
			return bins[n]
		}
	}
	n := 0
	for bins[n] != nil {
		n++
	}
	bins[n] = &bin{}
	return bins[n]
}

// takes reports whether there is room for a manifest. One that is large has a work of
// its own.
func (b *bin) takes(m manifest, l limits) bool {
	return !b.frozen && (b.size == 0 || b.size+m.size < l.full)
}

// shrink takes out of a work whose manifests have grown too large as few of them as it
// needs to have room again.
func (b *bin) shrink(l limits) (out []manifest) {
	for !b.frozen && b.size > l.greatest || len(out) > 0 && len(b.manifests) > 1 && b.size >= l.full {
		largest := 0
		for i, m := range b.manifests {
			if m.size > b.manifests[largest].size {
				largest = i
			}
		}
		m := b.manifests[largest]
		b.manifests = slices.Delete(b.manifests, largest, largest+1)
		b.size -= m.size
		out = append(out, m)
	}
	return out
}

// keysOf are the objects of a work, also of one in a cache that keeps no more of its
// manifests than Names does.
func keysOf(spec workv1.ManifestWorkSpec) []key {
	var out []key
	for _, m := range workdigest.Manifests(spec) {
		o := metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(m.Raw, &o); err == nil {
			kind := o.GroupVersionKind()
			out = append(out, key{kind.Group, kind.Kind, o.Namespace, o.Name})
		}
	}
	return out
}

// name is what a cache keeps of a manifest.
type name struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
	} `json:"metadata"`
	// Spec says of a workload whether it is to have pods.
	Spec json.RawMessage `json:"spec,omitempty"`
}

// Names are manifests with the kinds and names of those of a spec. A cache keeps them
// in place of the content.
func Names(spec workv1.ManifestWorkSpec) []workv1.Manifest {
	var out []workv1.Manifest
	for _, m := range workdigest.Manifests(spec) {
		var n name
		if json.Unmarshal(m.Raw, &n) != nil {
			continue
		}
		var spec struct {
			Replicas *int64 `json:"replicas"`
		}
		if err := json.Unmarshal(n.Spec, &spec); err == nil && spec.Replicas != nil {
			n.Spec = fmt.Appendf(nil, `{"replicas":%d}`, *spec.Replicas)
		} else {
			n.Spec = nil
		}
		if raw, err := json.Marshal(n); err == nil {
			out = append(out, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
		}
	}
	return out
}

// Objects are the objects of works, and at least what Names keeps of them.
func Objects(all []*workv1.ManifestWork) (out []*unstructured.Unstructured) {
	for _, w := range all {
		for _, m := range workdigest.Manifests(w.Spec) {
			o := &unstructured.Unstructured{}
			if o.UnmarshalJSON(m.Raw) == nil {
				out = append(out, o)
			}
		}
	}
	return out
}
