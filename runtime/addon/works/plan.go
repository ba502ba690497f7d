package works

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Input is what an add-on wants in one place.
type Input struct {
	Place
	Content
	// ManifestConfigs say how the manifests are treated.
	ManifestConfigs []workv1.ManifestConfigOption
	// DeleteOption and Executor are those that the template wants for its works; nil
	// for none.
	DeleteOption *workv1.DeleteOption
	Executor     *workv1.ManifestWorkExecutor
	// ManifestLimit is the greatest size of the manifests of a work, in bytes.
	ManifestLimit int
}

// Change is one work to write. Without Have the work is created, and without Want it
// is deleted.
type Change struct {
	Have, Want *workv1.ManifestWork
}

// Deploy are the changes that bring an add-on's manifests into a place. have are the
// works of the place, which may be lean ones with Names as their manifests; those with
// other names are left alone. Works that hold what is wanted are not among the changes.
// Works that get manifests come before those that only lose some, and before those that
// go.
//
// Upstream leaves the works as they are when there is nothing to deploy any more. Here
// they are deleted.
func Deploy(in Input, have []*workv1.ManifestWork) ([]Change, error) {
	limit := limitsFor(in.ManifestLimit)
	manifests, err := manifestsOf(in.Content.Deploy, limit)
	if err != nil {
		return nil, err
	}
	kept, err := in.keptHooks()
	if err != nil {
		return nil, err
	}
	byIndex := map[int]*workv1.ManifestWork{}
	for _, w := range have {
		if n, ok := in.index(w.Name); ok && in.Owns(w) {
			byIndex[n] = w
		}
	}
	bins := distribute(manifests, byIndex, limit)
	var gains, losses, deletes []Change
	keeps := false
	for _, n := range slices.Sorted(maps.Keys(bins)) {
		b := bins[n]
		switch {
		case b.frozen:
		case len(b.manifests) == 0:
			deletes = append(deletes, Change{Have: b.have})
		default:
			want := in.work(fmt.Sprintf("%s%d", in.prefix(), n), b.manifests)
			if kept != "" && !keeps {
				metav1.SetMetaDataAnnotation(&want.ObjectMeta, addon.PreDeleteManifestsAnnotation, kept)
				keeps = true
			}
			if c := (Change{Have: b.have, Want: want}); c.needed() && c.gains() {
				gains = append(gains, c)
			} else if c.needed() {
				losses = append(losses, c)
			}
		}
	}
	return slices.Concat(gains, losses, deletes), nil
}

// Hook is the change that brings the hooks into a place; ok is false when there is
// nothing to change.
func Hook(in Input, have []*workv1.ManifestWork) (c Change, ok bool, err error) {
	manifests, err := manifestsOf(in.Hooks, limitsFor(in.ManifestLimit))
	if err != nil {
		return c, false, err
	}
	size := 0
	for _, m := range manifests {
		size += m.size
	}
	if size > in.ManifestLimit {
		return c, false, fmt.Errorf("the manifests that run before the add-on is deleted have %d bytes, more than the %d that a work may have: make them smaller", size, in.ManifestLimit)
	}
	in.ManifestConfigs = hookConfigs(in.Hooks, in.ManifestConfigs)
	in.DeleteOption = nil // what has run is of no use any more
	c.Want = in.work(in.HookName(), manifests)
	for _, w := range have {
		if w.Name == in.HookName() && in.Owns(w) {
			c.Have = w
		}
	}
	if c.Have != nil && !c.Have.DeletionTimestamp.IsZero() {
		return c, false, nil
	}
	return c, c.needed(), nil
}

// work makes one of the works.
func (in Input) work(name string, manifests []manifest) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: in.metadata(name)}
	for _, m := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, m.raw)
	}
	w.Spec.ManifestConfigs = withDefaults(in.ManifestConfigs)
	w.Spec.DeleteOption = deleteOption(in.DeleteOption, manifests)
	w.Spec.Executor = in.Executor
	return w
}

// owned are the annotations that are the add-on's alone to write.
func owned() []string { return []string{work.SpecHashAnnotation, addon.PreDeleteManifestsAnnotation} }

// needed reports whether a work differs from what is wanted.
func (c Change) needed() bool {
	if c.Have == nil {
		return true
	}
	for k, v := range c.Want.Labels {
		if c.Have.Labels[k] != v {
			return true
		}
	}
	for _, k := range owned() {
		have, found := c.Have.Annotations[k]
		if want, wanted := c.Want.Annotations[k]; have != want || found != wanted {
			return true
		}
	}
	return !c.hasOwners() || workdigest.Of(c.Have.Spec) != workdigest.Of(c.Want.Spec)
}

// gains reports whether a work gets an object that it does not hold.
func (c Change) gains() bool {
	if c.Have == nil {
		return true
	}
	held := map[key]bool{}
	for _, k := range keysOf(c.Have.Spec) {
		held[k] = true
	}
	return slices.ContainsFunc(keysOf(c.Want.Spec), func(k key) bool { return !held[k] })
}

// hasOwners reports whether a work names its owner.
func (c Change) hasOwners() bool {
	for _, want := range c.Want.OwnerReferences {
		if !slices.ContainsFunc(c.Have.OwnerReferences, func(r metav1.OwnerReference) bool {
			return sameOwner(r, want) && r.UID == want.UID && r.APIVersion == want.APIVersion
		}) {
			return false
		}
	}
	return true
}

// sameOwner reports whether two references name one object, in whatever version.
func sameOwner(a, b metav1.OwnerReference) bool { return a.Kind == b.Kind && a.Name == b.Name }

// Patch is the merge patch of a work that there is. It names the version that it was
// made from.
func (c Change) Patch() ([]byte, error) {
	annotations := map[string]any{}
	for _, k := range owned() {
		annotations[k] = nil
		if v, ok := c.Want.Annotations[k]; ok {
			annotations[k] = v
		}
	}
	metadata := map[string]any{"resourceVersion": c.Have.ResourceVersion, "uid": c.Have.UID, "labels": c.Want.Labels, "annotations": annotations}
	if !c.hasOwners() {
		owners := slices.DeleteFunc(slices.Clone(c.Have.OwnerReferences), func(r metav1.OwnerReference) bool {
			return slices.ContainsFunc(c.Want.OwnerReferences, func(want metav1.OwnerReference) bool { return sameOwner(r, want) })
		})
		metadata["ownerReferences"] = append(owners, c.Want.OwnerReferences...)
	}
	patch := map[string]any{"metadata": metadata}
	if workdigest.Of(c.Have.Spec) != workdigest.Of(c.Want.Spec) {
		spec, err := replacement(c.Want.Spec)
		if err != nil {
			return nil, err
		}
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}

// replacement is a spec as a merge patch that leaves nothing of the one before.
func replacement(spec workv1.ManifestWorkSpec) (map[string]any, error) {
	manifests := make([]json.RawMessage, 0, len(spec.Workload.Manifests))
	for _, m := range spec.Workload.Manifests {
		manifests = append(manifests, m.Raw)
	}
	spec.Workload.Manifests = nil
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"deleteOption": nil, "manifestConfigs": nil, "executor": nil}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	if option, ok := out["deleteOption"].(map[string]any); ok {
		for _, field := range []string{"propagationPolicy", "selectivelyOrphans", "ttlSecondsAfterFinished"} {
			if _, ok := option[field]; !ok {
				option[field] = nil
			}
		}
	}
	out["workload"] = map[string]any{"manifests": manifests}
	return out, nil
}

// Content are the manifests for one place.
type Content struct {
	// Deploy are applied as long as the add-on is there.
	Deploy []*unstructured.Unstructured
	// Hooks run when the add-on is deleted.
	Hooks []*unstructured.Unstructured
}

// Sort says where and when the manifests of an add-on are applied. Only a hosted
// add-on has any in its hosting cluster.
func Sort(objects []*unstructured.Unstructured, hosted bool) (managed, hosting Content, err error) {
	for _, o := range Once(objects) {
		into := &managed
		if hosted {
			switch where, said := mark(o, addon.LocationAnnotation); {
			case !said || where == addon.LocationManaged:
			case where == addon.LocationHosting:
				into = &hosting
			case where == addon.LocationNone:
				continue
			default:
				return managed, hosting, fmt.Errorf("the manifest %s: %s is %q: use %s, %s or %s",
					describe(o), addon.LocationAnnotation, where, addon.LocationManaged, addon.LocationHosting, addon.LocationNone)
			}
		}
		if IsHook(o) {
			into.Hooks = append(into.Hooks, o)
		} else {
			into.Deploy = append(into.Deploy, o)
		}
	}
	return managed, hosting, nil
}

// IsHook reports whether a manifest is to run before the add-on is deleted.
func IsHook(o *unstructured.Unstructured) bool {
	_, marked := mark(o, addon.PreDeleteAnnotation)
	return marked && (isJob(o.GroupVersionKind().GroupKind()) || isPod(o.GroupVersionKind().GroupKind()))
}

func isJob(kind schema.GroupKind) bool { return kind.Group == "batch" && kind.Kind == "Job" }

func isPod(kind schema.GroupKind) bool { return kind.Group == "" && kind.Kind == "Pod" }

// mark is the annotation of a key, or in its absence the label.
func mark(o *unstructured.Unstructured, key string) (value string, found bool) {
	if value, found = o.GetAnnotations()[key]; found {
		return value, true
	}
	value, found = o.GetLabels()[key]
	return value, found
}

// key identifies an object, whatever version of its kind a manifest uses.
type key struct{ group, kind, namespace, name string }

func keyOf(o *unstructured.Unstructured) key {
	kind := o.GroupVersionKind()
	return key{kind.Group, kind.Kind, o.GetNamespace(), o.GetName()}
}

// Once leaves of several manifests for one object the last one, in the place of the
// first.
func Once(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	at := map[key]int{}
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		if i, twice := at[keyOf(o)]; twice {
			out[i] = o
			continue
		}
		at[keyOf(o)] = len(out)
		out = append(out, o)
	}
	return out
}

// describe names a manifest in a message.
func describe(o *unstructured.Unstructured) string {
	return strings.TrimSpace(o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
}

// greatestKept is how large the hooks may be that a work keeps in an annotation: all
// annotations of an object share 256 KiB.
const greatestKept = 64 << 10

const (
	// jobFailed and jobFailure are what the work of hooks reports of a Job that fails:
	// the well-known fields do not distinguish one that has failed from one that runs.
	jobFailed  = "JobFailed"
	jobFailure = "JobFailureMessage"
)

// keptHooks are the hooks as the works keep them.
func (in Input) keptHooks() (string, error) {
	if len(in.Hooks) == 0 {
		return "", nil
	}
	data, err := json.Marshal(in.Hooks)
	if err != nil {
		return "", fmt.Errorf("keep the manifests that run before the add-on is deleted: %w", err)
	}
	if len(data) > greatestKept {
		return "", nil
	}
	return string(data), nil
}

// KeptHooks are the hooks that belong to what the works of a place hold.
func KeptHooks(p Place, have []*workv1.ManifestWork) []*unstructured.Unstructured {
	for _, w := range have {
		text, found := w.Annotations[addon.PreDeleteManifestsAnnotation]
		var hooks []*unstructured.Unstructured
		if found && p.Owns(w) && json.Unmarshal([]byte(text), &hooks) == nil {
			return slices.DeleteFunc(hooks, func(o *unstructured.Unstructured) bool { return !IsHook(o) })
		}
	}
	return nil
}

// hookConfigs have the agent report how the hooks come along, beside what the template
// says of them.
func hookConfigs(hooks []*unstructured.Unstructured, configs []workv1.ManifestConfigOption) []workv1.ManifestConfigOption {
	var out []workv1.ManifestConfigOption
	rest := slices.Clone(configs)
	for _, o := range hooks {
		resource := "pods"
		rules := []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}}
		if isJob(o.GroupVersionKind().GroupKind()) {
			resource = "jobs"
			rules = append(rules, workv1.FeedbackRule{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{
				{Name: jobFailed, Path: `.status.conditions[?(@.type=="Failed")].status`},
				{Name: jobFailure, Path: `.status.conditions[?(@.type=="Failed")].message`},
			}})
		}
		c := workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{
			Group: o.GroupVersionKind().Group, Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}}
		if i := slices.IndexFunc(rest, func(r workv1.ManifestConfigOption) bool { return r.ResourceIdentifier == c.ResourceIdentifier }); i >= 0 {
			c = rest[i]
			rest = slices.Delete(rest, i, i+1)
		}
		own := slices.DeleteFunc(slices.Clone(c.FeedbackRules), func(r workv1.FeedbackRule) bool { return r.Type == workv1.FeedbackTypeWellKnownStatus })
		c.FeedbackRules = append(rules, own...)
		out = append(out, c)
	}
	return append(out, rest...)
}

// Completed reports whether the work of hooks is done, as the agent has reported it.
// failure says which hook has failed, if one has, and why.
//
// The hooks that count are those of the work's report, so an agent that has not
// reported on one yet is not done.
func Completed(w *workv1.ManifestWork) (done bool, failure string) {
	if !meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionAvailable) {
		return false, ""
	}
	reported := map[key]bool{}
	done = true
	for _, m := range w.Status.ResourceStatus.Manifests {
		r := m.ResourceMeta
		k := key{r.Group, r.Kind, r.Namespace, r.Name}
		reported[k] = true
		values := map[string]string{}
		for _, v := range m.StatusFeedbacks.Values {
			if v.Value.String != nil {
				values[v.Name] = *v.Value.String
			}
		}
		name := r.Kind + " " + r.Namespace + "/" + r.Name
		switch kind := (schema.GroupKind{Group: r.Group, Kind: r.Kind}); {
		case isJob(kind) && values[jobFailed] == "True":
			failure = strings.TrimSuffix(name+" has failed: "+values[jobFailure], ": ")
		case isPod(kind) && values["PodPhase"] == "Failed":
			failure = name + " has failed"
		case isJob(kind) && values["JobComplete"] == "True", isPod(kind) && values["PodPhase"] == "Succeeded":
			continue
		}
		done = false
	}
	for _, k := range keysOf(w.Spec) {
		done = done && reported[k]
	}
	return done, failure
}
