package manifest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/creationtimestamp"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Hash identifies a content.
type Hash [sha256.Size]byte

// Manifest is one object of a work with how it is to be treated.
type Manifest struct {
	Meta           workv1.ManifestResourceMeta
	Required       *unstructured.Unstructured
	GVR            schema.GroupVersionResource
	Hash           Hash
	Strategy       workv1.UpdateStrategy
	FeedbackRules  []workv1.FeedbackRule
	ConditionRules []workv1.ConditionRule
	// Ignored are the fields to leave alone once the object exists.
	Ignored []workv1.IgnoreField
	// Executor is who has to be allowed to do with the object what is done.
	Executor *workv1.ManifestWorkExecutor
	Owned    bool
	// Completed says that the manifest has done its work and is not to be applied
	// any more.
	Completed   bool
	UnknownKind bool // the cluster does not serve it
	// Err says why the manifest cannot be applied at all.
	Err error
}

// Key is where an object is in the managed cluster.
type Key struct {
	schema.GroupResource
	Namespace, Name string
}

// KeyOf is where an object of a resource is. Without a name it stands for all
// objects of the resource.
func KeyOf(gvr schema.GroupVersionResource, namespace, name string) Key {
	return Key{GroupResource: gvr.GroupResource(), Namespace: namespace, Name: name}
}

// Key is where the manifest's object is in the managed cluster.
func (m *Manifest) Key() Key {
	return KeyOf(m.GVR, m.Meta.Namespace, m.Meta.Name)
}

// Identifier is how an AppliedManifestWork names the manifest's object.
func (m *Manifest) Identifier() workv1.ResourceIdentifier {
	return workv1.ResourceIdentifier{
		Group: m.Meta.Group, Resource: m.Meta.Resource, Name: m.Meta.Name, Namespace: m.Meta.Namespace,
	}
}

// Read reads the manifests of a work and finds the resource of each.
func Read(mw *workv1.ManifestWork, mapper meta.RESTMapper) []*Manifest {
	out := make([]*Manifest, 0, len(mw.Spec.Workload.Manifests))
	reported, ownership := EntriesOf(mw.Status.ResourceStatus.Manifests), ownershipOf(mw.Spec.DeleteOption)
	for i, raw := range mw.Spec.Workload.Manifests {
		m := &Manifest{Meta: workv1.ManifestResourceMeta{Ordinal: int32(i)}, Executor: mw.Spec.Executor}
		m.Err = m.read(raw.Raw, mapper)
		if m.Err == nil {
			option := optionFor(mw.Spec.ManifestConfigs, m.Meta)
			m.Strategy, m.FeedbackRules, m.ConditionRules = option.strategy, option.feedback, option.rules
			m.Owned = ownership.owned(m.Meta) && m.Strategy.Type != workv1.UpdateStrategyTypeReadOnly
			m.Hash = hashOf(raw.Raw, m.Strategy, m.FeedbackRules, m.ConditionRules, m.Owned)
			m.Completed = m.HasRule(work.ConditionComplete) && wasCompleted(reported, m.Meta)
			normalize(m.Required, m.Strategy.Type)
			if m.Strategy.Type == workv1.UpdateStrategyTypeServerSideApply && m.Strategy.ServerSideApply != nil {
				m.Ignored = m.Strategy.ServerSideApply.IgnoreFields
			}
		}
		out = append(out, m)
	}
	return out
}

func (m *Manifest) read(raw []byte, mapper meta.RESTMapper) error {
	required := &unstructured.Unstructured{}
	if err := required.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("the manifest is not a Kubernetes object: %w", err)
	}
	gvk := required.GroupVersionKind()
	m.Meta.Group, m.Meta.Version, m.Meta.Kind = gvk.Group, gvk.Version, gvk.Kind
	m.Meta.Name, m.Meta.Namespace = required.GetName(), required.GetNamespace()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		m.UnknownKind = true
		return fmt.Errorf("the server doesn't have a resource type %q", gvk.Kind)
	}
	if err != nil {
		return fmt.Errorf("find the resource of the kind %s: %w", gvk, err)
	}
	m.GVR, m.Meta.Resource = mapping.Resource, mapping.Resource.Resource
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		m.Meta.Namespace = ""
		required.SetNamespace("")
	} else if m.Meta.Namespace == "" {
		return errors.New("metadata.namespace is missing: the kind is namespaced, and nothing is assumed")
	}
	if m.Meta.Name == "" {
		return errors.New("metadata.name is missing: give the object a name of its own, " +
			"as metadata.generateName would make another one in each pass")
	}
	required.SetUID("")
	creationtimestamp.RemoveNull(required.Object)
	m.Required = required
	return nil
}

// HasRule reports whether a rule derives the condition for the manifest's object.
func (m *Manifest) HasRule(condition string) bool {
	return slices.ContainsFunc(m.ConditionRules, func(r workv1.ConditionRule) bool { return r.Condition == condition })
}

// wasCompleted reports whether a manifest's object has been seen completed.
func wasCompleted(reported Entries, m workv1.ManifestResourceMeta) bool {
	entry := reported.Find(m)
	return entry != nil && meta.IsStatusConditionTrue(entry.Conditions, work.ConditionComplete)
}

func hashOf(raw []byte, parts ...any) Hash {
	h := sha256.New()
	h.Write(raw)
	for _, p := range parts {
		data, _ := json.Marshal(p) // of types of the API, which always can be
		h.Write(data)
	}
	return Hash(h.Sum(nil))
}

// Entries are the reported conditions of a work's manifests by identity.
type Entries map[workv1.ManifestResourceMeta][]*workv1.ManifestCondition

// EntriesOf indexes the reported conditions of a work.
func EntriesOf(list []workv1.ManifestCondition) Entries {
	out := make(Entries, len(list))
	for i := range list {
		id := list[i].ResourceMeta
		id.Ordinal = 0
		out[id] = append(out[id], &list[i])
	}
	return out
}

// Find is the entry of a manifest: with the same place and identity, or with
// the same identity when only one has it.
func (e Entries) Find(m workv1.ManifestResourceMeta) *workv1.ManifestCondition {
	id := m
	id.Ordinal = 0
	same := e[id]
	for _, entry := range same {
		if entry.ResourceMeta == m {
			return entry
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	return nil
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
		if !o.ResourceIdentifier.Matches(m.Group, m.Resource, m.Namespace, m.Name) {
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

// ownership says which objects are to go with their work.
type ownership struct {
	orphans  bool // none
	orphaned map[workv1.OrphaningRule]bool
}

// ownershipOf reads a work's option. There may be as many rules as manifests, so
// that they are not gone through for each.
func ownershipOf(o *workv1.DeleteOption) ownership {
	var out ownership
	if o == nil {
		return out
	}
	switch o.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeOrphan:
		out.orphans = true
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		if o.SelectivelyOrphan == nil {
			return out
		}
		out.orphaned = make(map[workv1.OrphaningRule]bool, len(o.SelectivelyOrphan.OrphaningRules))
		for _, r := range o.SelectivelyOrphan.OrphaningRules {
			out.orphaned[r] = true
		}
	}
	return out
}

// owned reports whether an object is to go with its work.
func (o ownership) owned(m workv1.ManifestResourceMeta) bool {
	rule := workv1.OrphaningRule{Group: m.Group, Resource: m.Resource, Namespace: m.Namespace, Name: m.Name}
	return !o.orphans && !o.orphaned[rule]
}
