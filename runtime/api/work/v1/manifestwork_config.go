package v1

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
