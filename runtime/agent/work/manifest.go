package work

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// manifest is one object of a work with how it is to be treated.
type manifest struct {
	meta     workv1.ManifestResourceMeta
	required *unstructured.Unstructured
	gvr      schema.GroupVersionResource
	hash     [sha256.Size]byte
	strategy workv1.UpdateStrategy
	feedback []workv1.FeedbackRule
	rules    []workv1.ConditionRule
	// executor is who has to be allowed to do with the object what is done.
	executor *workv1.ManifestWorkExecutor
	owned    bool
	fresh    bool // the work never held it before
	// completed says that the manifest has done its work and is not to be applied
	// any more.
	completed   bool
	unknownKind bool // the cluster does not serve it
	// inspection evaluates feedback and rules.
	inspection *inspection
	// err says why the manifest cannot be applied at all.
	err error
}

// key is where the manifest's object is in the managed cluster.
func (m *manifest) key() objectKey {
	return objectKey{m.gvr.GroupResource(), m.meta.Namespace, m.meta.Name}
}

// identifier is how an AppliedManifestWork names the manifest's object.
func (m *manifest) identifier() workv1.ResourceIdentifier {
	return workv1.ResourceIdentifier{Group: m.meta.Group, Resource: m.meta.Resource, Name: m.meta.Name, Namespace: m.meta.Namespace}
}

// identified reports whether it is known which object the manifest is for.
func (m *manifest) identified() bool { return m.err == nil }

// readManifests reads the manifests of a work and finds the resource of each.
func readManifests(mw *workv1.ManifestWork, mapper meta.RESTMapper) []*manifest {
	out := make([]*manifest, 0, len(mw.Spec.Workload.Manifests))
	reported := entriesOf(mw.Status.ResourceStatus.Manifests)
	for i, raw := range mw.Spec.Workload.Manifests {
		m := &manifest{meta: workv1.ManifestResourceMeta{Ordinal: int32(i)}, executor: mw.Spec.Executor}
		m.err = m.read(raw.Raw, mapper)
		if m.err == nil {
			option := optionFor(mw.Spec.ManifestConfigs, m.meta)
			m.strategy, m.feedback, m.rules = option.strategy, option.feedback, option.rules
			m.owned = isOwned(mw.Spec.DeleteOption, m.meta) && m.strategy.Type != workv1.UpdateStrategyTypeReadOnly
			m.hash = hashOf(raw.Raw, m.strategy, m.feedback, m.rules, m.owned)
			m.completed = m.hasRule(work.ConditionComplete) && wasCompleted(reported, m.meta)
			if m.strategy.Type != workv1.UpdateStrategyTypeServerSideApply {
				makeComparable(m.required)
			}
			if m.strategy.Type == workv1.UpdateStrategyTypeUpdate {
				markServiceSpec(m.required)
			}
		}
		out = append(out, m)
	}
	return out
}

func (m *manifest) read(raw []byte, mapper meta.RESTMapper) error {
	required := &unstructured.Unstructured{}
	if err := required.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("the manifest is not a Kubernetes object: %w", err)
	}
	gvk := required.GroupVersionKind()
	m.meta.Group, m.meta.Version, m.meta.Kind = gvk.Group, gvk.Version, gvk.Kind
	m.meta.Name, m.meta.Namespace = required.GetName(), required.GetNamespace()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		m.unknownKind = true
		return fmt.Errorf("the server doesn't have a resource type %q", gvk.Kind)
	}
	if err != nil {
		return fmt.Errorf("find the resource of the kind %s: %w", gvk, err)
	}
	m.gvr, m.meta.Resource = mapping.Resource, mapping.Resource.Resource
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		m.meta.Namespace = ""
		required.SetNamespace("")
	} else if m.meta.Namespace == "" {
		return errors.New("metadata.namespace is missing: the kind is namespaced, and nothing is assumed")
	}
	if m.meta.Name == "" {
		return errors.New("metadata.name is missing: give the object a name of its own, as metadata.generateName would make another one at each look")
	}
	required.SetUID("")
	removeNullCreationTimestamp(required.Object)
	m.required = required
	return nil
}

// makeComparable gives an object the form in which the server returns it, as far
// as that decides whether it has to be written.
func makeComparable(required *unstructured.Unstructured) {
	delete(required.Object, "status")
	if isCore(required, "Secret") {
		foldStringData(required.Object)
	}
	if isAggregated(required) {
		delete(required.Object, "rules") // which the cluster fills in
	}
}

func (m *manifest) hasRule(condition string) bool {
	return slices.ContainsFunc(m.rules, func(r workv1.ConditionRule) bool { return r.Condition == condition })
}

// wasCompleted reports whether a manifest's object has been seen completed.
func wasCompleted(reported entries, m workv1.ManifestResourceMeta) bool {
	entry := reported.find(m)
	return entry != nil && meta.IsStatusConditionTrue(entry.Conditions, work.ConditionComplete)
}

// removeNullCreationTimestamp drops what Go programs write for an object that
// was never created, in pod templates too: it would count as a change.
func removeNullCreationTimestamp(object map[string]any) {
	for k, v := range object {
		if k == "creationTimestamp" && v == nil {
			delete(object, k)
			continue
		}
		if below, ok := v.(map[string]any); ok {
			removeNullCreationTimestamp(below)
		}
	}
}

// foldStringData does what the API server does with it, so that a secret can be
// compared with what the server has.
func foldStringData(object map[string]any) {
	plain, found, err := unstructured.NestedStringMap(object, "stringData")
	if !found || err != nil {
		return
	}
	data, _, _ := unstructured.NestedMap(object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for k, v := range plain {
		data[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	object["data"] = data
	delete(object, "stringData")
}

func hashOf(raw []byte, parts ...any) [sha256.Size]byte {
	h := sha256.New()
	h.Write(raw)
	for _, p := range parts {
		data, _ := json.Marshal(p) // of types of the API, which always can be
		h.Write(data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

type option struct {
	strategy workv1.UpdateStrategy
	feedback []workv1.FeedbackRule
	rules    []workv1.ConditionRule
}

// optionFor merges the options whose identifiers match a manifest: of each
// field the first that sets it counts.
func optionFor(options []workv1.ManifestConfigOption, m workv1.ManifestResourceMeta) option {
	var out option
	for _, o := range options {
		id := o.ResourceIdentifier
		if id.Group != m.Group || id.Resource != m.Resource || !matches(id.Name, m.Name) || !matches(id.Namespace, m.Namespace) {
			continue
		}
		if out.strategy.Type == "" && o.UpdateStrategy != nil {
			out.strategy = *o.UpdateStrategy
		}
		if len(out.feedback) == 0 {
			out.feedback = o.FeedbackRules
		}
		if len(out.rules) == 0 {
			out.rules = o.ConditionRules
		}
	}
	if out.strategy.Type == "" {
		out.strategy.Type = workv1.UpdateStrategyTypeUpdate
	}
	return out
}

// matches compares with a pattern in which * stands for any text.
func matches(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// isOwned reports whether an object is to go with its work.
func isOwned(o *workv1.DeleteOption, m workv1.ManifestResourceMeta) bool {
	if o == nil {
		return true
	}
	switch o.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeOrphan:
		return false
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		if o.SelectivelyOrphan == nil {
			return true
		}
		for _, r := range o.SelectivelyOrphan.OrphaningRules {
			if r.Group == m.Group && r.Resource == m.Resource && r.Namespace == m.Namespace && r.Name == m.Name {
				return false
			}
		}
	}
	return true
}
