// Package manifest reads the manifests of a ManifestWork: which object each is
// for, with which options, in which order they are applied, and which fields are
// left alone. In go a work and a REST mapper, out come values. It also has the
// errors of manifests that the agent distinguishes, and their text without the
// object's content.
//
// It sends no requests.
package manifest

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// rank is the place of a kind in the order in which manifests are applied:
// what others live in or depend on comes first. The group does not count. The
// order is that of upstream's agent, which no library has: those of Flux and
// cli-utils are others.
func rank(kind string) int {
	switch kind {
	case "PriorityClass", "Namespace", "CustomResourceDefinition", "StorageClass", "PersistentVolume",
		"PodSecurityPolicy":
		return 0
	case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
		return 1
	case "NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount":
		return 2
	case "Secret", "ConfigMap", "PersistentVolumeClaim":
		return 3
	case "Service":
		return 4
	case "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler",
		"StatefulSet", "Job", "CronJob":
		return 5
	case "APIService", "MutatingWebhookConfiguration",
		"ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return 6
	case "":
		return 1001 // what could not be read
	}
	return 1000
}

// Batches are the manifests in the order in which to apply them, as indices;
// those of a batch may be applied at once.
func Batches(manifests []*Manifest) [][]int {
	order := make([]int, len(manifests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(rank(manifests[a].Meta.Kind), rank(manifests[b].Meta.Kind))
	})
	var out [][]int
	for _, i := range order {
		if n := len(out); n > 0 && rank(manifests[out[n-1][0]].Meta.Kind) == rank(manifests[i].Meta.Kind) {
			out[n-1] = append(out[n-1], i)
		} else {
			out = append(out, []int{i})
		}
	}
	return out
}

// normalize gives an object the form in which its update strategy needs it.
func normalize(required *unstructured.Unstructured, strategy workv1.UpdateStrategyType) {
	if strategy != workv1.UpdateStrategyTypeServerSideApply {
		makeComparable(required)
	}
	if strategy == workv1.UpdateStrategyTypeUpdate {
		markServiceSpec(required)
	}
}

// makeComparable gives an object the form in which the server returns it, as far
// as that decides whether it has to be written.
func makeComparable(required *unstructured.Unstructured) {
	delete(required.Object, "status")
	if IsCore(required, "Secret") {
		foldStringData(required.Object)
	}
	if IsAggregated(required) {
		delete(required.Object, "rules") // which the cluster fills in
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

// IsAggregated reports whether an object is a ClusterRole whose rules the API server
// aggregates from others.
func IsAggregated(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == rbacv1.GroupName && gvk.Kind == "ClusterRole" && o.Object["aggregationRule"] != nil
}

// IsCore reports whether an object is of a kind in the API version v1.
func IsCore(o *unstructured.Unstructured, kind string) bool {
	return o.GetAPIVersion() == "v1" && o.GetKind() == kind
}

// markServiceSpec puts the hash of a service's spec into its annotations, where
// upstream's agent looks for it: without it, that agent would replace every
// service when it takes over from this one. A spec that can't be read has no hash; the
// server says what is wrong with it.
func markServiceSpec(required *unstructured.Unstructured) {
	if !IsCore(required, "Service") {
		return
	}
	fields, found, err := unstructured.NestedMap(required.Object, "spec")
	if !found || err != nil {
		return
	}
	spec := corev1.ServiceSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec); err != nil {
		return
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return
	}
	sum := sha256.Sum256(data)
	annotations := required.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[work.ServiceSpecHashAnnotation] = hex.EncodeToString(sum[:])
	required.SetAnnotations(annotations)
}
