package works

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
