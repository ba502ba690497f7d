package manifestwork

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// How a work's objects are treated: deletion, executor, and rules for single objects.
// Works and replica sets have these attributes.

type (
	workSpec     = *workv1.ManifestWorkSpec
	deleteOption = *workv1.DeleteOption
	executor     = *workv1.ManifestWorkExecutor
	account      = *workv1.ManifestWorkSubjectServiceAccount
	config       = *workv1.ManifestConfigOption
	identifier   = *workv1.ResourceIdentifier
	strategy     = *workv1.UpdateStrategy
	applyConfig  = *workv1.ServerSideApplyConfig
	ignoreField  = *workv1.IgnoreField
	feedbackRule = *workv1.FeedbackRule
	jsonPath     = *workv1.JSONPath
	conditionOf  = *workv1.ConditionRule
)

// Options has the attributes of the options of works. at is the place of the work's
// specification in the object, such as spec; deletion documents what a deletion does.
func Options[P any](at string, spec func(P) workSpec, deletion string) attribute.Table[P] {
	return attribute.Table[P]{
		attribute.ObjectPointer("delete_option",
			schema.SingleNestedAttribute{MarkdownDescription: deletion, Optional: true},
			func(p P) **workv1.DeleteOption { return &spec(p).DeleteOption },
			deletionFields()...).At(at + ".deleteOption"),
		ManifestConfigs(at+".manifestConfigs", "Treats some of the objects specially: how they are written, what is "+
			"reported of them, and which conditions are derived from them.",
			func(p P) *[]workv1.ManifestConfigOption { return &spec(p).ManifestConfigs }),
		attribute.ObjectPointer("executor",
			schema.SingleNestedAttribute{
				MarkdownDescription: "Service account in the managed cluster that has to be allowed to do what the " +
					"work asks for. If omitted, the agent's own rights apply. Naming one needs the right " +
					"`execute-as` on the hub.",
				Optional: true,
			},
			func(p P) **workv1.ManifestWorkExecutor { return &spec(p).Executor },
			ofAccount(attribute.Text("namespace",
				attribute.Required("Namespace of the service account.", attribute.ValidName("namespace")),
				func(a account) *string { return &a.Namespace })),
			ofAccount(attribute.Text("service_account",
				attribute.Required("Name of the service account.", attribute.ValidObjectName("service account name")),
				func(a account) *string { return &a.Name })),
		).At(at + ".executor"),
	}
}

// ofAccount is a field of the service account that an executor names.
func ofAccount(f attribute.Field[account]) attribute.Field[executor] {
	return attribute.Within(func(e executor) *account { return &e.Subject.ServiceAccount }, f).
		Sets(func(e executor) { e.Subject.Type = workv1.ExecutorSubjectTypeServiceAccount })
}

func deletionFields() []attribute.Field[deleteOption] {
	return []attribute.Field[deleteOption]{
		attribute.Text("propagation_policy", defaulted(workv1.DeletePropagationPolicyTypeForeground,
			"`Foreground`: the objects are deleted, and the work waits until they are gone. `Orphan`: they all stay. "+
				"`SelectivelyOrphan`: those of `orphaning_rules` stay. Defaults to `Foreground`.",
			workv1.DeletePropagationPolicyTypeOrphan, workv1.DeletePropagationPolicyTypeSelectivelyOrphan),
			func(o deleteOption) *workv1.DeletePropagationPolicyType { return &o.PropagationPolicy }),
		attribute.Within(func(o deleteOption) **workv1.SelectivelyOrphan { return &o.SelectivelyOrphan },
			attribute.Objects("orphaning_rules",
				objects("Objects that stay under `SelectivelyOrphan`. Everything has to match exactly."),
				func(s *workv1.SelectivelyOrphan) *[]workv1.OrphaningRule { return &s.OrphaningRules },
				identifierFields(func(r *workv1.OrphaningRule) identifier { return identifier(r) })...)),
		attribute.NumberPointer("ttl_seconds_after_finished", schema.Int64Attribute{
			MarkdownDescription: "Lets the hub delete the work this many seconds after its condition `Complete` " +
				"became true. The next plan then proposes to create it again.",
			Optional:   true,
			Validators: []validator.Int64{int64validator.AtLeast(0)},
		}, func(o deleteOption) **int64 { return &o.TTLSecondsAfterFinished }),
	}
}

func identifierFields[P any](of func(P) identifier) []attribute.Field[P] {
	some := stringvalidator.LengthAtLeast(1)
	return []attribute.Field[P]{
		attribute.Text("group",
			attribute.Optional("API group of the object, such as `apps`; omit it for the core group.", some),
			func(p P) *string { return &of(p).Group }),
		attribute.Text("resource",
			attribute.Required("Plural name of the object's kind, such as `deployments`.", some),
			func(p P) *string { return &of(p).Resource }),
		attribute.Text("name", attribute.Required("Name of the object.", some),
			func(p P) *string { return &of(p).Name }),
		attribute.Text("namespace",
			attribute.Optional("Namespace of the object; omit it if the kind has none.", some),
			func(p P) *string { return &of(p).Namespace }),
	}
}

// ManifestConfigs is the attribute manifest_configs; at is its place in the object.
func ManifestConfigs[P any](
	at, description string, of func(P) *[]workv1.ManifestConfigOption,
) attribute.Field[P] {
	return attribute.Objects("manifest_configs", objects(description), of,
		attribute.Object("resource_identifier",
			schema.SingleNestedAttribute{
				MarkdownDescription: "Which objects are meant. In `name` and `namespace`, `*` stands for any " +
					"characters.",
				Required: true,
			},
			func(c config) identifier { return &c.ResourceIdentifier },
			identifierFields(func(i identifier) identifier { return i })...),
		attribute.ObjectPointer("update_strategy",
			schema.SingleNestedAttribute{
				MarkdownDescription: "How the agent writes an object that exists. If omitted, it replaces what " +
					"differs.",
				Optional: true,
			},
			func(c config) *strategy { return &c.UpdateStrategy },
			strategyFields()...),
		attribute.Objects("feedback_rules", objects("Fields of the live object to report in the work's status."),
			func(c config) *[]workv1.FeedbackRule { return &c.FeedbackRules },
			feedbackFields()...),
		attribute.Text("feedback_scrape_type", defaulted(workv1.FeedbackScrapeTypePoll,
			"How the agent notices changes of these fields: `Poll` or `Watch`. Defaults to `Poll`.",
			workv1.FeedbackScrapeTypeWatch),
			func(c config) *workv1.FeedbackScrapeType { return &c.FeedbackScrapeType }),
		attribute.Objects("condition_rules",
			objects("Conditions to derive from the live object, of the object and of the work, such as "+
				"`Progressing` or `Complete`."),
			func(c config) *[]workv1.ConditionRule { return &c.ConditionRules },
			conditionFields()...),
	).At(at)
}

func strategyFields() []attribute.Field[strategy] {
	return []attribute.Field[strategy]{
		attribute.Text("type", oneOf("`Update`: replace what differs. `CreateOnly`: create what is missing and leave "+
			"it alone. `ServerSideApply`: own the manifest's fields and no others. `ReadOnly`: only report.",
			workv1.UpdateStrategyTypeUpdate, workv1.UpdateStrategyTypeCreateOnly,
			workv1.UpdateStrategyTypeServerSideApply, workv1.UpdateStrategyTypeReadOnly),
			func(s strategy) *workv1.UpdateStrategyType { return &s.Type }),
		attribute.ObjectPointer("server_side_apply",
			schema.SingleNestedAttribute{MarkdownDescription: "Tunes the type `ServerSideApply`.", Optional: true},
			func(s strategy) *applyConfig { return &s.ServerSideApply },
			attribute.Flag("force", schema.BoolAttribute{
				MarkdownDescription: "Whether to take fields over from other owners. Defaults to `false`.",
				Optional:            true, Computed: true, Default: booldefault.StaticBool(false),
			}, func(a applyConfig) *bool { return &a.Force }),
			attribute.Text("field_manager", schema.StringAttribute{
				MarkdownDescription: "Name under which the fields are owned; it begins with `work-agent`. " +
					"Defaults to `work-agent`.",
				Optional: true, Computed: true, Default: stringdefault.StaticString(work.DefaultFieldManager),
				Validators: []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^work-agent`),
					"a field manager of the agent begins with work-agent")},
			}, func(a applyConfig) *string { return &a.FieldManager }),
			attribute.Objects("ignore_fields",
				objects("Fields that are left to the managed cluster, such as the replica count to an autoscaler. "+
					"One entry for each condition."),
				func(a applyConfig) *[]workv1.IgnoreField { return &a.IgnoreFields },
				attribute.Text("condition", defaulted(workv1.IgnoreFieldsConditionOnSpokePresent,
					"`OnSpokePresent`: the fields are set when the object is created and not again. `OnSpokeChange`: "+
						"a change in the cluster is left alone until the manifest changes. Defaults to "+
						"`OnSpokePresent`.",
					workv1.IgnoreFieldsConditionOnSpokeChange),
					func(i ignoreField) *workv1.IgnoreFieldsCondition { return &i.Condition }),
				attribute.TextList("json_paths",
					texts("Fields as JSONPath, such as `.spec.replicas`.", attribute.ValidJSONPath()),
					func(i ignoreField) *[]string { return &i.JSONPaths }),
				attribute.TextList("json_pointers", texts("Fields as JSON Pointer, such as `/spec/replicas`."),
					func(i ignoreField) *[]string { return &i.JSONPointers }),
				attribute.TextList("jq_path_expressions",
					texts("Fields as jq paths: names, indices, `.[]` and `select()`, such as "+
						"`.webhooks[].clientConfig.caBundle`.", attribute.ValidJQPath()),
					func(i ignoreField) *[]string { return &i.JQPathExpressions }))),
	}
}

func feedbackFields() []attribute.Field[feedbackRule] {
	return []attribute.Field[feedbackRule]{
		attribute.Text("type", oneOf("`WellKnownStatus`: the usual fields of Deployments, DaemonSets, Jobs and Pods. "+
			"`JSONPaths`: those that `json_paths` names.",
			workv1.FeedbackTypeWellKnownStatus, workv1.FeedbackTypeJSONPaths),
			func(r feedbackRule) *workv1.FeedbackType { return &r.Type }),
		attribute.Objects("json_paths", objects("Fields by their paths."),
			func(r feedbackRule) *[]workv1.JSONPath { return &r.JSONPaths },
			attribute.Text("name",
				attribute.Required("Name under which the value is reported.", attribute.NotEmpty()),
				func(j jsonPath) *string { return &j.Name }),
			attribute.Text("path",
				attribute.Required("JSONPath from the root of the object to a single value, such as "+
					"`.status.readyReplicas`.", attribute.ValidJSONPath()),
				func(j jsonPath) *string { return &j.Path }),
			attribute.Text("version",
				attribute.Optional("Version of the object's API for which the path is meant. If omitted, any.",
					stringvalidator.LengthAtLeast(1)),
				func(j jsonPath) *string { return &j.Version })),
	}
}

func conditionFields() []attribute.Field[conditionOf] {
	some := stringvalidator.LengthAtLeast(1)
	return []attribute.Field[conditionOf]{
		attribute.Text("condition",
			attribute.Required("Type of the condition. A work that is `Complete` is not applied again.", some),
			func(r conditionOf) *string { return &r.Condition }),
		attribute.Text("type", oneOf("`CEL`: `cel_expressions` all have to be true. `WellKnownConditions`: the agent "+
			"knows how, which it does for `Complete` of Jobs and Pods.",
			workv1.ConditionRuleTypeCEL, workv1.ConditionRuleTypeWellKnownConditions),
			func(r conditionOf) *workv1.ConditionRuleType { return &r.Type }),
		attribute.TextList("cel_expressions",
			texts("Expressions over the variable `object`.", attribute.ValidCondition()),
			func(r conditionOf) *[]string { return &r.CELExpressions }),
		attribute.Text("message", attribute.Optional("Message of the condition.", some),
			func(r conditionOf) *string { return &r.Message }),
		attribute.Text("message_expression",
			attribute.Optional("Expression that yields the message; it sees `object` and `result`.",
				some, attribute.ValidMessage()),
			func(r conditionOf) *string { return &r.MessageExpression }),
	}
}

// objects is the schema of a list of objects.
func objects(description string) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{MarkdownDescription: description, Optional: true}
}

// texts is the schema of a list of texts.
func texts(description string, each ...validator.String) schema.ListAttribute {
	s := schema.ListAttribute{MarkdownDescription: description, Optional: true}
	if each != nil {
		s.Validators = []validator.List{listvalidator.ValueStringsAre(each...)}
	}
	return s
}

// oneOf is the schema of a text that has to be one of several.
func oneOf[T ~string](description string, values ...T) schema.StringAttribute {
	return attribute.Required(description, attribute.OneOf(values...)...)
}

// defaulted is the schema of a text that is one of several if it is left out.
func defaulted[T ~string](standard T, description string, others ...T) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: description,
		Optional:            true, Computed: true, Default: stringdefault.StaticString(string(standard)),
		Validators: attribute.OneOf(append([]T{standard}, others...)...),
	}
}

// CheckOptions finds what is wrong with manifest_configs of a configuration, as far
// as it is known: options for objects that the work does not have, and more of
// them than a hub admits.
func CheckOptions(ctx context.Context, from crud.Source, content workload.Content, diags *diag.Diagnostics) {
	var list types.List
	root := path.Root("manifest_configs")
	diags.Append(from.GetAttribute(ctx, root, &list)...)
	objects, complete := content.Known()
	options := optionsOf(list)
	for i, element := range list.Elements() {
		option, _ := element.(types.Object)
		id := option.Attributes()["resource_identifier"]
		// Without objects there is an error already, or they are those of an import.
		if !complete || len(objects) == 0 || id == nil || !attribute.Known(id) {
			continue
		}
		at := root.AtListIndex(i).AtName("resource_identifier")
		if problem := unmatched(options[i].ResourceIdentifier, objects); problem != "" {
			diags.AddAttributeError(at, "Options for no object",
				fmt.Sprintf("%s: the work has no such object. %s", at, problem))
		}
	}
	if !attribute.Known(list) {
		return
	}
	// Paths that can't be read are reported where they are.
	if err := workcheck.Options("manifest_configs", options); err != nil && !errors.Is(err, workcheck.ErrPath) {
		diags.AddAttributeError(root, "Too many options", "The hub would refuse the work: "+err.Error()+".")
	}
}

// optionsOf are options of a configuration, as far as they are known.
func optionsOf(list attr.Value) []workv1.ManifestConfigOption {
	var spec workv1.ManifestWorkSpec
	Options("spec", func(s workSpec) workSpec { return s }, "").
		Write(attribute.Values{"manifest_configs": list}, &spec)
	return spec.ManifestConfigs
}

// unmatched says what to do about an identifier that means none of the objects; it
// is empty for one that may mean some. What a pattern finds is left to it, and so
// are the plural names of kinds that are not Kubernetes' own.
func unmatched(id workv1.ResourceIdentifier, objects []workload.Object) string {
	if strings.Contains(id.Name+id.Namespace, "*") {
		return ""
	}
	var near *workload.Object
	for i, object := range objects {
		plural, known := workload.ResourceOf(object.APIVersion, object.Kind)
		sameName := object.Name == id.Name && object.Namespace == id.Namespace
		sameKind := object.Group() == id.Group && (!known || plural == id.Resource)
		if sameName && sameKind {
			return ""
		}
		similar := strings.EqualFold(object.Kind, id.Resource) || strings.EqualFold(object.Kind+"s", id.Resource) ||
			plural == id.Resource
		if sameName && (near == nil || similar) || near == nil && sameKind && (known || object.Name == id.Name) {
			near = &objects[i]
		}
	}
	if near == nil {
		return "Name one of its objects, or remove the option."
	}
	return fmt.Sprintf("Did you mean %s? Its identifier is %s.", near, identifierText(*near))
}

// identifierText is the identifier of an object, as a configuration has it.
func identifierText(object workload.Object) string {
	plural, known := workload.ResourceOf(object.APIVersion, object.Kind)
	if !known {
		plural = strings.ToLower(object.Kind) + "s"
	}
	var parts []string
	for _, part := range [][2]string{
		{"group", object.Group()}, {"resource", plural}, {"namespace", object.Namespace}, {"name", object.Name},
	} {
		if part[1] != "" {
			parts = append(parts, fmt.Sprintf("%s = %q", part[0], part[1]))
		}
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
