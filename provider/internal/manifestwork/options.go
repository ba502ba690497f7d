package manifestwork

import (
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// How a work's objects are treated: deletion, executor, and rules for single
// objects.

// Options say how the objects of works are treated. Works and replica sets have them.
type Options struct {
	DeleteOption    *DeleteOptionModel    `tfsdk:"delete_option"`
	ManifestConfigs []ManifestConfigModel `tfsdk:"manifest_configs"`
	Executor        *ExecutorModel        `tfsdk:"executor"`
}

// DeleteOptionModel is what becomes of the objects in the end.
type DeleteOptionModel struct {
	PropagationPolicy types.String      `tfsdk:"propagation_policy"`
	OrphaningRules    []identifierModel `tfsdk:"orphaning_rules"`
	TTL               types.Int64       `tfsdk:"ttl_seconds_after_finished"`
}

type identifierModel struct {
	Group     types.String `tfsdk:"group"`
	Resource  types.String `tfsdk:"resource"`
	Name      types.String `tfsdk:"name"`
	Namespace types.String `tfsdk:"namespace"`
}

// ExecutorModel is the service account that has to be allowed to do the work.
type ExecutorModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"service_account"`
}

// ManifestConfigModel is how some of the objects are treated.
type ManifestConfigModel struct {
	ResourceIdentifier identifierModel      `tfsdk:"resource_identifier"`
	UpdateStrategy     *updateStrategyModel `tfsdk:"update_strategy"`
	FeedbackRules      []feedbackRuleModel  `tfsdk:"feedback_rules"`
	FeedbackScrapeType types.String         `tfsdk:"feedback_scrape_type"`
	ConditionRules     []conditionRuleModel `tfsdk:"condition_rules"`
}

type updateStrategyModel struct {
	Type            types.String          `tfsdk:"type"`
	ServerSideApply *serverSideApplyModel `tfsdk:"server_side_apply"`
}

type serverSideApplyModel struct {
	Force        types.Bool         `tfsdk:"force"`
	FieldManager types.String       `tfsdk:"field_manager"`
	IgnoreFields []ignoreFieldModel `tfsdk:"ignore_fields"`
}

type ignoreFieldModel struct {
	Condition         types.String   `tfsdk:"condition"`
	JSONPaths         []types.String `tfsdk:"json_paths"`
	JSONPointers      []types.String `tfsdk:"json_pointers"`
	JQPathExpressions []types.String `tfsdk:"jq_path_expressions"`
}

type feedbackRuleModel struct {
	Type      types.String    `tfsdk:"type"`
	JSONPaths []jsonPathModel `tfsdk:"json_paths"`
}

type jsonPathModel struct {
	Name    types.String `tfsdk:"name"`
	Path    types.String `tfsdk:"path"`
	Version types.String `tfsdk:"version"`
}

type conditionRuleModel struct {
	Condition         types.String   `tfsdk:"condition"`
	Type              types.String   `tfsdk:"type"`
	CELExpressions    []types.String `tfsdk:"cel_expressions"`
	Message           types.String   `tfsdk:"message"`
	MessageExpression types.String   `tfsdk:"message_expression"`
}

// OptionAttributes are those of Options. delete documents what a deletion does.
func OptionAttributes(delete string) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"delete_option":    deleteOptionAttribute(delete),
		"manifest_configs": ManifestConfigsAttribute(),
		"executor":         executorAttribute(),
	}
}

// deleteOptionAttribute is a DeleteOptionModel.
func deleteOptionAttribute(description string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description,
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"propagation_policy": schema.StringAttribute{
				MarkdownDescription: "`Foreground`: the objects are deleted, and the work waits until they are gone. " +
					"`Orphan`: they all stay. `SelectivelyOrphan`: those of `orphaning_rules` stay. Defaults to " +
					"`Foreground`.",
				Optional: true, Computed: true, Default: stringdefault.StaticString(string(workv1.DeletePropagationPolicyTypeForeground)),
				Validators: attribute.OneOf(workv1.DeletePropagationPolicyTypeForeground, workv1.DeletePropagationPolicyTypeOrphan, workv1.DeletePropagationPolicyTypeSelectivelyOrphan),
			},
			"orphaning_rules": schema.ListNestedAttribute{
				MarkdownDescription: "Objects that stay under `SelectivelyOrphan`. Everything has to match exactly.",
				Optional:            true,
				NestedObject:        schema.NestedAttributeObject{Attributes: identifierAttributes()},
			},
			"ttl_seconds_after_finished": schema.Int64Attribute{
				MarkdownDescription: "Lets the hub delete the work this many seconds after its condition `Complete` " +
					"became true. The next plan then proposes to create it again.",
				Optional:   true,
				Validators: []validator.Int64{int64validator.AtLeast(0)},
			},
		},
	}
}

func identifierAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"group":     schema.StringAttribute{MarkdownDescription: "API group of the object, such as `apps`; omit it for the core group.", Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
		"resource":  schema.StringAttribute{MarkdownDescription: "Plural name of the object's kind, such as `deployments`.", Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
		"name":      schema.StringAttribute{MarkdownDescription: "Name of the object.", Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
		"namespace": schema.StringAttribute{MarkdownDescription: "Namespace of the object; omit it if the kind has none.", Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
	}
}

// executorAttribute is an ExecutorModel.
func executorAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Service account in the managed cluster that has to be allowed to do what the work asks " +
			"for. If omitted, the agent's own rights apply. Naming one needs the right `execute-as` on the hub.",
		Optional: true,
		Attributes: map[string]schema.Attribute{
			"namespace":       schema.StringAttribute{MarkdownDescription: "Namespace of the service account.", Required: true, Validators: []validator.String{attribute.ValidName("namespace")}},
			"service_account": schema.StringAttribute{MarkdownDescription: "Name of the service account.", Required: true, Validators: []validator.String{attribute.ValidObjectName("service account name")}},
		},
	}
}

// ManifestConfigsAttribute is a list of ManifestConfigModel.
func ManifestConfigsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Treats some of the objects specially: how they are written, what is reported of them, " +
			"and which conditions are derived from them.",
		Optional: true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"resource_identifier": schema.SingleNestedAttribute{
				MarkdownDescription: "Which objects are meant. In `name` and `namespace`, `*` stands for any " +
					"characters.",
				Required:   true,
				Attributes: identifierAttributes(),
			},
			"update_strategy": updateStrategyAttribute(),
			"feedback_rules": schema.ListNestedAttribute{
				MarkdownDescription: "Fields of the live object to report in the work's status.",
				Optional:            true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"type": schema.StringAttribute{
						MarkdownDescription: "`WellKnownStatus`: the usual fields of Deployments, DaemonSets, Jobs " +
							"and Pods. `JSONPaths`: those that `json_paths` names.",
						Required:   true,
						Validators: attribute.OneOf(workv1.FeedbackTypeWellKnownStatus, workv1.FeedbackTypeJSONPaths),
					},
					"json_paths": schema.ListNestedAttribute{
						MarkdownDescription: "Fields by their paths.",
						Optional:            true,
						NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
							"name":    schema.StringAttribute{MarkdownDescription: "Name under which the value is reported.", Required: true, Validators: []validator.String{attribute.NotEmpty()}},
							"path":    schema.StringAttribute{MarkdownDescription: "JSONPath from the root of the object to a single value, such as `.status.readyReplicas`.", Required: true, Validators: []validator.String{attribute.ValidJSONPath()}},
							"version": schema.StringAttribute{MarkdownDescription: "Version of the object's API for which the path is meant. If omitted, any.", Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
						}},
					},
				}},
			},
			"feedback_scrape_type": schema.StringAttribute{
				MarkdownDescription: "How the agent notices changes of these fields: `Poll` or `Watch`. Defaults to " +
					"`Poll`.",
				Optional: true, Computed: true, Default: stringdefault.StaticString(string(workv1.FeedbackScrapeTypePoll)),
				Validators: attribute.OneOf(workv1.FeedbackScrapeTypePoll, workv1.FeedbackScrapeTypeWatch),
			},
			"condition_rules": conditionRulesAttribute(),
		}},
	}
}

func updateStrategyAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "How the agent writes an object that exists. If omitted, it replaces what differs.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"type": schema.StringAttribute{
				MarkdownDescription: "`Update`: replace what differs. `CreateOnly`: create what is missing and leave " +
					"it alone. `ServerSideApply`: own the manifest's fields and no others. `ReadOnly`: only report.",
				Required:   true,
				Validators: attribute.OneOf(workv1.UpdateStrategyTypeUpdate, workv1.UpdateStrategyTypeCreateOnly, workv1.UpdateStrategyTypeServerSideApply, workv1.UpdateStrategyTypeReadOnly),
			},
			"server_side_apply": schema.SingleNestedAttribute{
				MarkdownDescription: "Tunes the type `ServerSideApply`.",
				Optional:            true,
				Attributes: map[string]schema.Attribute{
					"force": schema.BoolAttribute{
						MarkdownDescription: "Whether to take fields over from other owners. Defaults to `false`.",
						Optional:            true, Computed: true, Default: booldefault.StaticBool(false),
					},
					"field_manager": schema.StringAttribute{
						MarkdownDescription: "Name under which the fields are owned; it begins with `work-agent`. " +
							"Defaults to `work-agent`.",
						Optional: true, Computed: true, Default: stringdefault.StaticString(work.DefaultFieldManager),
						Validators: []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^work-agent`), "a field manager of the agent begins with work-agent")},
					},
					"ignore_fields": schema.ListNestedAttribute{
						MarkdownDescription: "Fields that are left to the managed cluster, such as the replica count " +
							"to an autoscaler. One entry for each condition.",
						Optional: true,
						NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
							"condition": schema.StringAttribute{
								MarkdownDescription: "`OnSpokePresent`: the fields are set when the object is " +
									"created and not again. `OnSpokeChange`: a change in the cluster is left alone " +
									"until the manifest changes. Defaults to `OnSpokePresent`.",
								Optional: true, Computed: true, Default: stringdefault.StaticString(string(workv1.IgnoreFieldsConditionOnSpokePresent)),
								Validators: attribute.OneOf(workv1.IgnoreFieldsConditionOnSpokePresent, workv1.IgnoreFieldsConditionOnSpokeChange),
							},
							"json_paths":          schema.ListAttribute{MarkdownDescription: "Fields as JSONPath, such as `.spec.replicas`.", Optional: true, ElementType: types.StringType, Validators: []validator.List{listvalidator.ValueStringsAre(attribute.ValidJSONPath())}},
							"json_pointers":       schema.ListAttribute{MarkdownDescription: "Fields as JSON Pointer, such as `/spec/replicas`.", Optional: true, ElementType: types.StringType},
							"jq_path_expressions": schema.ListAttribute{MarkdownDescription: "Fields as jq paths: names, indices, `.[]` and `select()`, such as `.webhooks[].clientConfig.caBundle`.", Optional: true, ElementType: types.StringType, Validators: []validator.List{listvalidator.ValueStringsAre(attribute.ValidJQPath())}},
						}},
					},
				},
			},
		},
	}
}

func conditionRulesAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Conditions to derive from the live object, of the object and of the work, such as " +
			"`Progressing` or `Complete`.",
		Optional: true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"condition": schema.StringAttribute{MarkdownDescription: "Type of the condition. A work that is `Complete` is not applied again.", Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
			"type": schema.StringAttribute{
				MarkdownDescription: "`CEL`: `cel_expressions` all have to be true. `WellKnownConditions`: the agent " +
					"knows how, which it does for `Complete` of Jobs and Pods.",
				Required:   true,
				Validators: attribute.OneOf(workv1.ConditionRuleTypeCEL, workv1.ConditionRuleTypeWellKnownConditions),
			},
			"cel_expressions":    schema.ListAttribute{MarkdownDescription: "Expressions over the variable `object`.", Optional: true, ElementType: types.StringType, Validators: []validator.List{listvalidator.ValueStringsAre(attribute.ValidCondition())}},
			"message":            schema.StringAttribute{MarkdownDescription: "Message of the condition.", Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
			"message_expression": schema.StringAttribute{MarkdownDescription: "Expression that yields the message; it sees `object` and `result`.", Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1), attribute.ValidMessage()}},
		}},
	}
}
