// Package v1 holds the kinds of the API group work.open-cluster-management.io that
// carry workloads to managed clusters: ManifestWork and AppliedManifestWork.
//
// A ManifestWork lives on the hub in the namespace of one managed cluster. The
// work agent of that cluster pulls it, applies its manifests there, and reports
// into its status. Nothing on the hub connects to the cluster.
//
// An AppliedManifestWork is the agent's own record and lives in the managed
// cluster: one per ManifestWork, owner of every object that the agent applied for
// it. From it the agent knows what to delete when the work shrinks or is deleted,
// even after a restart, and even when the hub is gone.
//
// # Zero values on the wire
//
// Optional fields are left out when they are empty; those whose zero value says
// something of its own (DeleteOption.TTLSecondsAfterFinished, FieldValue) are
// pointers. Manifests are kept as raw JSON, so that no field of an unknown kind is
// lost or reordered on the way.
//
// +kubebuilder:object:generate=true
// +groupName=work.open-cluster-management.io
package v1

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: work.GroupName, Version: "v1"}

// ManifestWork is a bundle of Kubernetes objects for one managed cluster. Created
// on the hub in the cluster's namespace, it makes the cluster's agent apply the
// objects, keep them as described, report on them, and delete them when the work
// is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type ManifestWork struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what to apply, and how.
	// +optional
	Spec ManifestWorkSpec `json:"spec,omitzero"`

	// status is what the agent reports.
	// +optional
	Status ManifestWorkStatus `json:"status,omitzero"`
}

// ManifestWorkSpec is a bundle of objects and how to treat them.
type ManifestWorkSpec struct {
	// workload holds the objects.
	// +optional
	Workload ManifestsTemplate `json:"workload,omitzero"`

	// deleteOption says what becomes of the applied objects when the work is
	// deleted or finished. Left out, they are deleted with the work.
	// +optional
	DeleteOption *DeleteOption `json:"deleteOption,omitempty"`

	// manifestConfigs treat some of the objects specially: how they are updated,
	// what is reported of them, and which conditions are derived from them. If
	// several entries match an object, each of updateStrategy, feedbackRules and
	// conditionRules comes from the first that has it.
	// +optional
	ManifestConfigs []ManifestConfigOption `json:"manifestConfigs,omitempty"`

	// executor is the identity in the managed cluster that has to be allowed to do
	// what the work asks for. Left out, the agent's own rights decide. Naming an
	// executor needs the permission "execute-as" on the hub.
	// +optional
	Executor *ManifestWorkExecutor `json:"executor,omitempty"`
}

// ManifestsTemplate holds the objects of a work.
type ManifestsTemplate struct {
	// manifests are complete Kubernetes objects, each with apiVersion, kind and
	// metadata.name. They are applied in an order that suits their kinds
	// (namespaces and definitions first), and one that fails does not stop the
	// others. All together may take up to 500 KiB.
	// +optional
	Manifests []Manifest `json:"manifests,omitempty"`
}

// Manifest is one Kubernetes object, of any kind.
type Manifest struct {
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	runtime.RawExtension `json:",inline"`
}

// DeleteOption says what becomes of a work's objects in the end.
type DeleteOption struct {
	// propagationPolicy says what happens to the objects when the work is deleted.
	// Foreground: they are deleted, and the work waits until they are gone.
	// Orphan: they all stay. SelectivelyOrphan: those that selectivelyOrphans
	// names stay. The choice takes effect with the next application of the work,
	// so change it some time before deleting the work.
	// +optional
	// +kubebuilder:default=Foreground
	PropagationPolicy DeletePropagationPolicyType `json:"propagationPolicy,omitempty"`

	// selectivelyOrphans names the objects that stay under SelectivelyOrphan.
	// +optional
	SelectivelyOrphan *SelectivelyOrphan `json:"selectivelyOrphans,omitempty"`

	// ttlSecondsAfterFinished lets the hub delete the work this many seconds after
	// its condition Complete became True; 0 deletes it at once. Left out, a
	// finished work stays. The hub has to have the feature
	// CleanUpCompletedManifestWork on.
	// +optional
	TTLSecondsAfterFinished *int64 `json:"ttlSecondsAfterFinished,omitempty"`
}

// DeletePropagationPolicyType says what happens to applied objects when their work
// is deleted.
//
// +kubebuilder:validation:Enum=Foreground;Orphan;SelectivelyOrphan
type DeletePropagationPolicyType string

const (
	// DeletePropagationPolicyTypeForeground deletes the objects and waits for it.
	DeletePropagationPolicyTypeForeground DeletePropagationPolicyType = "Foreground"

	// DeletePropagationPolicyTypeOrphan leaves the objects in place.
	DeletePropagationPolicyTypeOrphan DeletePropagationPolicyType = "Orphan"

	// DeletePropagationPolicyTypeSelectivelyOrphan leaves the named objects in
	// place and deletes the others.
	DeletePropagationPolicyTypeSelectivelyOrphan DeletePropagationPolicyType = "SelectivelyOrphan"
)

// SelectivelyOrphan names objects that outlive their work.
type SelectivelyOrphan struct {
	// orphaningRules each name one object that stays. Without any, none does.
	// +optional
	OrphaningRules []OrphaningRule `json:"orphaningRules,omitempty"`
}

// OrphaningRule names one object that outlives its work. All four fields have to
// match exactly; there are no wildcards here.
type OrphaningRule struct {
	// group is the object's API group, empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`

	// resource is the plural name of the object's kind, such as deployments.
	// +required
	Resource string `json:"resource"`

	// name of the object.
	// +required
	Name string `json:"name"`

	// namespace of the object, empty if its kind has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ManifestWorkExecutor is who a work acts for in the managed cluster.
type ManifestWorkExecutor struct {
	// subject whose rights are checked before an object is applied.
	// +optional
	Subject ManifestWorkExecutorSubject `json:"subject,omitzero"`
}

// ManifestWorkExecutorSubject is an identity in the managed cluster.
type ManifestWorkExecutorSubject struct {
	// type of the identity. ServiceAccount is the only one.
	// +required
	Type ManifestWorkExecutorSubjectType `json:"type"`

	// serviceAccount is the identity.
	// +optional
	ServiceAccount *ManifestWorkSubjectServiceAccount `json:"serviceAccount,omitempty"`
}

// ManifestWorkExecutorSubjectType is a kind of identity.
//
// +kubebuilder:validation:Enum=ServiceAccount
type ManifestWorkExecutorSubjectType string

// ExecutorSubjectTypeServiceAccount is the type of service accounts in the managed
// cluster.
const ExecutorSubjectTypeServiceAccount ManifestWorkExecutorSubjectType = "ServiceAccount"

// ManifestWorkSubjectServiceAccount names a service account in the managed cluster.
type ManifestWorkSubjectServiceAccount struct {
	// namespace of the service account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$`
	Namespace string `json:"namespace"`

	// name of the service account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$`
	Name string `json:"name"`
}

// ManifestWorkList is a list of works.
//
// +kubebuilder:object:root=true
type ManifestWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the works.
	Items []ManifestWork `json:"items"`
}

// ManifestConfigOption treats the objects that its identifier matches specially.
type ManifestConfigOption struct {
	// resourceIdentifier says which objects of the work are meant. In name and
	// namespace, * stands for any number of characters.
	// +required
	ResourceIdentifier ResourceIdentifier `json:"resourceIdentifier"`

	// feedbackRules say which fields of the live object are reported in the work's
	// status.
	// +optional
	FeedbackRules []FeedbackRule `json:"feedbackRules,omitempty"`

	// feedbackScrapeType says how the agent notices changes of those fields: by
	// looking at intervals (Poll), or at once (Watch), which keeps a connection
	// open. An agent has a limited number of those.
	// +optional
	// +kubebuilder:default=Poll
	FeedbackScrapeType FeedbackScrapeType `json:"feedbackScrapeType,omitempty"`

	// updateStrategy says how the object is written when it exists already. Left
	// out, it is Update.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`

	// conditionRules derive conditions, of the object and of the work, from the
	// live object. Upstream's progressive rollouts depend on a rule for
	// Progressing; muster's go on without one.
	// +optional
	// +listType=map
	// +listMapKey=condition
	ConditionRules []ConditionRule `json:"conditionRules,omitempty"`
}

// ResourceIdentifier names an object without its version.
type ResourceIdentifier struct {
	// group is the object's API group, empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`

	// resource is the plural name of the object's kind, such as deployments.
	// +required
	Resource string `json:"resource"`

	// name of the object.
	// +required
	Name string `json:"name"`

	// namespace of the object, empty if its kind has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// UpdateStrategy says how the agent writes an object that exists already.
type UpdateStrategy struct {
	// type chooses the strategy. Update: replace what differs. CreateOnly: create
	// the object if it is missing and never touch it again. ServerSideApply: own
	// the fields in the manifest and leave the others to their owners. ReadOnly:
	// never write, only report on what is there.
	// +required
	// +kubebuilder:default=Update
	Type UpdateStrategyType `json:"type,omitempty"`

	// serverSideApply tunes the type ServerSideApply.
	// +optional
	ServerSideApply *ServerSideApplyConfig `json:"serverSideApply,omitempty"`
}

// UpdateStrategyType is a way to write an object that exists already.
//
// +kubebuilder:validation:Enum=Update;CreateOnly;ServerSideApply;ReadOnly
type UpdateStrategyType string

const (
	// UpdateStrategyTypeUpdate replaces what differs. It is the default.
	UpdateStrategyTypeUpdate UpdateStrategyType = "Update"

	// UpdateStrategyTypeCreateOnly creates what is missing and leaves it alone.
	UpdateStrategyTypeCreateOnly UpdateStrategyType = "CreateOnly"

	// UpdateStrategyTypeServerSideApply owns the manifest's fields and no others.
	UpdateStrategyTypeServerSideApply UpdateStrategyType = "ServerSideApply"

	// UpdateStrategyTypeReadOnly only reports on what is there.
	UpdateStrategyTypeReadOnly UpdateStrategyType = "ReadOnly"
)

// ServerSideApplyConfig tunes server-side apply.
type ServerSideApplyConfig struct {
	// force takes fields over from other owners. Without it, a field that another
	// manager owns with another value makes applying fail.
	// +optional
	Force bool `json:"force,omitempty"`

	// fieldManager is the name under which the fields are owned. It has to begin
	// with work-agent.
	// +optional
	// +kubebuilder:default=work-agent
	// +kubebuilder:validation:Pattern=`^work-agent`
	FieldManager string `json:"fieldManager,omitempty"`

	// ignoreFields leave fields of the manifest to the managed cluster, say the
	// replica count to an autoscaler.
	// +optional
	// +listType=map
	// +listMapKey=condition
	IgnoreFields []IgnoreField `json:"ignoreFields,omitempty"`
}

// IgnoreField leaves fields to the managed cluster under a condition.
type IgnoreField struct {
	// condition says when. OnSpokePresent: the fields are set when the object is
	// created and not sent any more once it exists. OnSpokeChange: a change in the
	// managed cluster is left alone until the manifest itself changes.
	// +required
	// +kubebuilder:default=OnSpokePresent
	Condition IgnoreFieldsCondition `json:"condition,omitempty"`

	// jsonPaths name the fields as JSONPath, such as .spec.replicas.
	// +optional
	JSONPaths []string `json:"jsonPaths,omitempty"`

	// jsonPointers name the fields as JSON Pointer (RFC 6901), such as
	// /spec/replicas.
	// +optional
	JSONPointers []string `json:"jsonPointers,omitempty"`

	// jqPathExpressions name the fields as jq paths; they can single out elements
	// of lists.
	// +optional
	JQPathExpressions []string `json:"jqPathExpressions,omitempty"`
}

// IgnoreFieldsCondition says when fields are left to the managed cluster.
//
// +kubebuilder:validation:Enum=OnSpokePresent;OnSpokeChange
type IgnoreFieldsCondition string

const (
	// IgnoreFieldsConditionOnSpokePresent leaves the fields once the object exists.
	IgnoreFieldsConditionOnSpokePresent IgnoreFieldsCondition = "OnSpokePresent"

	// IgnoreFieldsConditionOnSpokeChange leaves changes made in the managed cluster
	// until the manifest changes.
	IgnoreFieldsConditionOnSpokeChange IgnoreFieldsCondition = "OnSpokeChange"
)

// FeedbackRule says which fields of a live object are reported.
type FeedbackRule struct {
	// type chooses the fields. WellKnownStatus: the usual ones of Deployments,
	// DaemonSets, Jobs and Pods; other kinds have none. JSONPaths: those that
	// jsonPaths names.
	// +required
	Type FeedbackType `json:"type"`

	// jsonPaths name the fields for the type JSONPaths.
	// +optional
	// +listType=map
	// +listMapKey=name
	JSONPaths []JSONPath `json:"jsonPaths,omitempty"`
}

// FeedbackType chooses the fields of a feedback rule.
//
// +kubebuilder:validation:Enum=WellKnownStatus;JSONPaths
type FeedbackType string

const (
	// FeedbackTypeWellKnownStatus reports the usual fields of well-known kinds.
	FeedbackTypeWellKnownStatus FeedbackType = "WellKnownStatus"

	// FeedbackTypeJSONPaths reports the named fields.
	FeedbackTypeJSONPaths FeedbackType = "JSONPaths"
)

// FeedbackScrapeType is how the agent notices changes of reported fields.
//
// +kubebuilder:validation:Enum=Poll;Watch
type FeedbackScrapeType string

const (
	// FeedbackScrapeTypePoll looks at intervals. It is the default.
	FeedbackScrapeTypePoll FeedbackScrapeType = "Poll"

	// FeedbackScrapeTypeWatch reports changes at once.
	FeedbackScrapeTypeWatch FeedbackScrapeType = "Watch"
)

// JSONPath names one field to report.
type JSONPath struct {
	// name under which the value is reported.
	// +required
	Name string `json:"name"`

	// version of the object's API for which the path is meant. Left out, any.
	// +optional
	Version string `json:"version,omitempty"`

	// path is a JSONPath from the root of the object, such as
	// .status.readyReplicas. It should lead to a single number, text or truth
	// value. A path to nothing reports nothing.
	// +required
	Path string `json:"path"`
}

// ConditionRule derives a condition from a live object.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'CEL' || self.condition != \"\"",message="Condition is required for CEL rules"
type ConditionRule struct {
	// condition is the type of the condition to set, such as Progressing or
	// Complete. A work that is Complete is not applied again.
	// +required
	Condition string `json:"condition"`

	// type says how the condition is found. CEL: celExpressions all have to be
	// true. WellKnownConditions: the agent knows how, which it does for Complete
	// of Jobs and Pods.
	// +required
	Type ConditionRuleType `json:"type"`

	// celExpressions are evaluated in order, over the variable object, the live
	// object as it is in the API, until one is not true.
	// +optional
	CELExpressions []string `json:"celExpressions,omitempty"`

	// message of the condition. Left out, it says whether the condition holds.
	// +optional
	Message string `json:"message,omitempty"`

	// messageExpression is CEL that yields the message; it sees object, and the
	// outcome as result. It goes before message.
	// +optional
	MessageExpression string `json:"messageExpression,omitempty"`
}

// ConditionRuleType is a way to find a condition.
//
// +kubebuilder:validation:Enum=WellKnownConditions;CEL
type ConditionRuleType string

const (
	// ConditionRuleTypeWellKnownConditions relies on the agent's knowledge of the kind.
	ConditionRuleTypeWellKnownConditions ConditionRuleType = "WellKnownConditions"

	// ConditionRuleTypeCEL evaluates the rule's expressions.
	ConditionRuleTypeCEL ConditionRuleType = "CEL"
)

// ManifestWorkStatus is what the agent reports about a work.
type ManifestWorkStatus struct {
	// conditions of the work as a whole. Applied: the agent wrote all objects.
	// Available: all objects exist in the managed cluster, which says nothing about
	// their health. Deleting: their removal is under way. Progressing, Degraded,
	// Complete and any other come from conditionRules.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// resourceStatus reports on each object.
	// +optional
	ResourceStatus ManifestResourceStatus `json:"resourceStatus,omitzero"`
}

// ManifestResourceStatus reports on the objects of a work.
type ManifestResourceStatus struct {
	// manifests has one entry for each manifest, in the order of the spec.
	// +optional
	Manifests []ManifestCondition `json:"manifests,omitempty"`
}

// ManifestCondition reports on one object.
type ManifestCondition struct {
	// resourceMeta says which object it is.
	// +required
	ResourceMeta ManifestResourceMeta `json:"resourceMeta"`

	// statusFeedback holds the fields that feedbackRules asked for.
	// +optional
	StatusFeedbacks StatusFeedbackResult `json:"statusFeedback,omitzero"`

	// conditions of the object. Applied: the agent wrote it. Available: it exists.
	// StatusFeedbackSynced: the reported fields could be read. Others come from
	// conditionRules. The list has to be there even when it is empty: in Go, set
	// an empty slice and not nil.
	// +required
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`
}

// ManifestResourceMeta says which object of a work is meant.
type ManifestResourceMeta struct {
	// ordinal is the position of the manifest in the spec, from 0.
	// +required
	Ordinal int32 `json:"ordinal"`

	// group is the object's API group, empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`

	// version of the object's API.
	// +optional
	Version string `json:"version,omitempty"`

	// kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// resource is the plural name of the kind; empty when the cluster does not
	// know the kind.
	// +optional
	Resource string `json:"resource,omitempty"`

	// name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// namespace of the object, empty if its kind has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// StatusFeedbackResult holds reported fields.
type StatusFeedbackResult struct {
	// values by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Values []FeedbackValue `json:"values,omitempty"`
}

// FeedbackValue is one reported field.
type FeedbackValue struct {
	// name that the feedback rule gives the field.
	// +required
	Name string `json:"name"`

	// fieldValue is what was found.
	// +required
	Value FieldValue `json:"fieldValue"`
}

// FieldValue is a value with its type; only the field for that type is set.
type FieldValue struct {
	// type says which of the other fields holds the value.
	// +required
	Type ValueType `json:"type"`

	// integer is the value for the type Integer.
	// +optional
	Integer *int64 `json:"integer,omitempty"`

	// string is the value for the type String.
	// +optional
	String *string `json:"string,omitempty"`

	// boolean is the value for the type Boolean.
	// +optional
	Boolean *bool `json:"boolean,omitempty"`

	// jsonRaw is the value for the type JsonRaw: any other value as compact JSON of
	// at most 1024 characters. The agent has to have the feature
	// RawFeedbackJsonString on.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	JSONRaw *string `json:"jsonRaw,omitempty"`
}

// ValueType is the type of a reported value.
//
// +kubebuilder:validation:Enum=Integer;String;Boolean;JsonRaw
type ValueType string

const (
	// ValueTypeInteger is a whole number of 64 bits.
	ValueTypeInteger ValueType = "Integer"

	// ValueTypeString is text.
	ValueTypeString ValueType = "String"

	// ValueTypeBoolean is true or false.
	ValueTypeBoolean ValueType = "Boolean"

	// ValueTypeJSONRaw is anything, as JSON.
	ValueTypeJSONRaw ValueType = "JsonRaw"
)

// AppliedManifestWork is the work agent's record, in the managed cluster, of what
// it applied for one ManifestWork. Its name is the hash of the hub's address, a
// hyphen, and the name of the work. It owns the applied objects. Leave it to the
// agent: deleting it deletes what it owns.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
type AppliedManifestWork struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says which work this is the record of.
	// +optional
	Spec AppliedManifestWorkSpec `json:"spec,omitzero"`

	// status lists what was applied.
	// +optional
	Status AppliedManifestWorkStatus `json:"status,omitzero"`
}

// AppliedManifestWorkSpec says which work a record belongs to.
type AppliedManifestWorkSpec struct {
	// hubHash is the SHA-256 of the hub's address as the agent's kubeconfig has it,
	// in lower-case hexadecimal.
	// +required
	HubHash string `json:"hubHash"`

	// agentID is the agent that looks after this record. Agents leave the records
	// of other agents alone.
	// +optional
	AgentID string `json:"agentID,omitempty"`

	// manifestWorkName is the name of the ManifestWork in the cluster's namespace
	// on the hub.
	// +required
	ManifestWorkName string `json:"manifestWorkName"`
}

// AppliedManifestWorkStatus lists what was applied for a work.
type AppliedManifestWorkStatus struct {
	// appliedResources are the objects that the work put into the cluster, or
	// found there. An object that is listed here but not wanted any more is deleted.
	// +optional
	AppliedResources []AppliedManifestResourceMeta `json:"appliedResources,omitempty"`

	// evictionStartTime is when the agent first missed the work on the hub. After
	// a time of grace, 60 minutes unless set otherwise, the record and what it owns
	// are deleted; if the work turns up again before, this is cleared.
	// +optional
	EvictionStartTime *metav1.Time `json:"evictionStartTime,omitempty"`
}

// AppliedManifestResourceMeta names an applied object.
type AppliedManifestResourceMeta struct {
	ResourceIdentifier `json:",inline"`

	// version of the API with which the object was applied.
	// +required
	Version string `json:"version"`

	// uid of the object. An object of the same name with another uid is another
	// one, and is not deleted.
	// +optional
	UID string `json:"uid,omitempty"`
}

// AppliedManifestWorkList is a list of records.
//
// +kubebuilder:object:root=true
type AppliedManifestWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the records.
	Items []AppliedManifestWork `json:"items"`
}

// Matches reports whether an object is one of those that are meant: group and resource
// are the same, and namespace and name fit, in which * stands for any text.
func (id ResourceIdentifier) Matches(group, resource, namespace, name string) bool {
	return id.Group == group && id.Resource == resource && matches(id.Name, name) && matches(id.Namespace, namespace)
}

// MaxPattern is how long a pattern may be, in bytes: twice a name's length. Longer
// ones match nothing; each is compared with each manifest of its work.
const MaxPattern = 512

// matches compares with a pattern in which * stands for any text.
func matches(pattern, s string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == s
	}
	if len(pattern) > MaxPattern {
		return false
	}
	parts := strings.Split(pattern, "*")
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

// serviceAccountUserPrefix begins the user names of service accounts.
const serviceAccountUserPrefix = "system:serviceaccount:"

// UserName is the user that an executor stands for in its managed cluster. The
// error says what keeps it from standing for anybody; then nothing may be read
// or written in its name.
func (e ManifestWorkExecutor) UserName() (string, error) {
	if e.Subject.Type != ExecutorSubjectTypeServiceAccount {
		return "", errors.New("only support ServiceAccount type for the executor")
	}
	sa := e.Subject.ServiceAccount
	if sa == nil {
		return "", errors.New("the executor service account is nil")
	}
	// Neither may hold a colon, which would make it another account's name.
	for _, part := range []struct {
		field, value string
		check        func(string) []string
	}{
		{"namespace", sa.Namespace, validation.IsDNS1123Label},
		{"name", sa.Name, validation.IsDNS1123Subdomain},
	} {
		if problems := part.check(part.value); len(problems) > 0 {
			return "", fmt.Errorf("the executor service account has the %s %q, which no service account can have: %s", part.field, part.value, problems[0])
		}
	}
	return sa.UserName(), nil
}

// UserName is the service account's name as a user. It says nothing of whether
// there is one.
func (sa ManifestWorkSubjectServiceAccount) UserName() string {
	return serviceAccountUserPrefix + sa.Namespace + ":" + sa.Name
}
