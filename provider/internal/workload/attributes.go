package workload

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Table has the attributes that hold the objects. manifests and objects are computed
// too, because an import sets both: see Content.imported.
func (k Kind[O]) Table() attribute.Table[O] {
	return attribute.Table[O]{
		attribute.ByHooks[O]("manifests", schema.ListAttribute{
			MarkdownDescription: "Objects as YAML or JSON, for example from `yamlencode` or `file`. A text may hold " +
				"several YAML documents. Each object needs apiVersion, kind and metadata.name. Only what they mean " +
				"is compared: notation, comments, the order of objects and keys, and fields that are null make no " +
				"difference. At least one of `manifests`, `objects` and `manifests_wo` has to be " +
				"set. " + k.Rules.Limit + " " +
				"The texts are hidden in plans, and left out of a configuration that Terraform generates: `fields` " +
				"shows what is in them.",
			Optional: true, Computed: true, Sensitive: true,
			ElementType: types.StringType,
		}),
		attribute.ByHooks[O]("objects", schema.DynamicAttribute{
			MarkdownDescription: "Objects as HCL: a list of objects such as `{ apiVersion = \"v1\", kind = " +
				"\"Namespace\", metadata = { name = \"shop\" } }`. They are compared like those of `manifests`, so " +
				"`1` and `1.0` are the same, and so are null and nothing; `1` and `\"1\"` are not. Plans show them, " +
				"but for values that are sensitive in Terraform, such as those of a variable with `sensitive = " +
				"true`. A Secret with values is refused here: it belongs in `manifests` or `manifests_wo`.",
			Optional: true, Computed: true,
		}),
		attribute.ByHooks[O]("manifests_wo", schema.ListAttribute{
			MarkdownDescription: "Objects as in `manifests` whose content never reaches the plan or the state, such " +
				"as Secrets with values of ephemeral resources. Only their kinds and names are kept, in `fields` " +
				"and in an annotation of the work, by which imports and data sources leave them out too. They are " +
				"sent whenever the work is written, and a change in them is not noticed: raise " +
				"`manifests_wo_version` to send them again. A change of these objects on the hub is not noticed " +
				"either, only that one is missing.",
			Optional: true, WriteOnly: true,
			ElementType: types.StringType,
		}),
		attribute.ByHooks[O]("manifests_wo_version", schema.Int64Attribute{
			MarkdownDescription: "Version of `manifests_wo`: any other number than before sends them again.",
			Optional:            true,
			Validators:          []validator.Int64{int64validator.AlsoRequires(path.MatchRoot("manifests_wo"))},
		}),
		attribute.ByHooks[O]("fields", schema.MapAttribute{
			MarkdownDescription: "All values in the objects of `manifests`, so that a plan shows what changes in " +
				"them: by object, such as `apps/v1/Deployment shop/web`, then by path, such as " +
				"`spec.template.spec.containers[0].image`. What is in `objects` is shown there, and not here: only " +
				"there can Terraform hide values that are sensitive. Right after an import, it lists nothing that " +
				"`objects` has. Values of Secrets read `(sensitive, version 1)`, with a version that goes up when " +
				"the value changes, and so do texts with a name that marks them as secret, such as an environment " +
				"variable `DB_PASSWORD`, and those that `sensitive_fields` names; of `manifests_wo` only the " +
				"objects are listed. Of texts over 200 characters the first 100 are shown, and a checksum. Any " +
				"other sensitive value of `manifests` is **not** masked: name it in `sensitive_fields`, or put it " +
				"into `objects`, into a Secret, or into `manifests_wo`.",
			Computed:    true,
			ElementType: FieldsElement(),
		}),
		attribute.Local[O]("field_validation", schema.StringAttribute{
			MarkdownDescription: "How strictly objects of Kubernetes' own kinds are checked while planning, which " +
				"needs no cluster: for fields and kinds that " +
				"Kubernetes " + KubernetesRelease + " does not have, wrong " +
				"types, and what no API server accepts, such as a selector that does not match its template. " +
				"`Strict`: all that is an error. `Warn`: what only a later release may know, a field or a kind, is " +
				"a warning. `Ignore`: nothing is checked. Defaults to `Strict`. Custom resources are never checked.",
			Optional:   true,
			Validators: attribute.OneOf(fieldsStrict, fieldsWarned, fieldsIgnored),
		}),
		attribute.Local[O]("sensitive_fields", schema.SetAttribute{
			MarkdownDescription: "Paths of fields whose values are not to be shown, such as `data.password` or " +
				"`spec.template.spec.containers[*].args`, as `fields` has them, in any of the objects. A path " +
				"stands for all that is below it, `*` for any name, and `[*]` for any element. Their values read " +
				"`(sensitive, version 1)` in `fields`, and `(sensitive)` in reports, warnings and errors, whether " +
				"they come from `manifests` or from `objects`. Changing it changes nothing in the clusters.",
			Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1)},
		}),
	}
}

// The values of field_validation, in the words of Kubernetes.
const (
	fieldsStrict  = "Strict"
	fieldsWarned  = "Warn"
	fieldsIgnored = "Ignore"
)

// Generation is on every resource that brings objects to clusters. kind is what
// it is called.
func Generation[O metav1.Object](kind string) attribute.Field[O] {
	return attribute.Reported("generation", schema.Int64Attribute{
		MarkdownDescription: "Generation of the " + kind + " on the hub, which goes up with each change of what it " +
			"says. A plan shows it as unknown only when it changes.",
		Computed: true,
	}, func(object O) types.Int64 { return types.Int64Value(object.GetGeneration()) })
}

// GenerationToWaitFor is on the resources that wait for those of Generation.
func GenerationToWaitFor[O any](kind string) attribute.Table[O] {
	return attribute.Table[O]{attribute.Local[O]("generation", schema.Int64Attribute{
		MarkdownDescription: "The attribute `generation` of the `" + kind + "`: another one lets it wait again.",
		Required:            true,
	})}
}

// Kind says of a kind that brings objects to clusters where it has them, and what holds
// for them. The kind's own table has the attributes of Table.
type Kind[O kube.Object] struct {
	Template func(O) *workv1.ManifestsTemplate
	Rules    Rules
}

// Live is the content of an object as the hub has it.
func (k Kind[O]) Live(object O) Live {
	return Live{Manifests: k.Template(object).Manifests, Annotations: object.GetAnnotations()}
}

// Hooks write and read the content, and hide what is secret in it.
func (k Kind[O]) Hooks() crud.Hooks[O] {
	return crud.Hooks[O]{
		Own:  func(_ attribute.Values, o *crud.Owned) { o.Discreet = true }, // The manifests may hold secrets.
		Mask: Mask,
		Complete: func(
			ctx context.Context, values attribute.Values, config tfsdk.Config, object O, diags *diag.Diagnostics,
		) {
			ContentOf(values).Put(ctx, k.Rules, config, object, k.Template(object), diags)
		},
		AlsoRead: func(_ context.Context, _ *kube.Client, values attribute.Values, object O) error {
			content := ContentOf(values)
			err := content.Observe(k.Live(object))
			content.keep(values)
			return err
		},
		Imported: func(values attribute.Values, object O) error {
			content, err := Import(k.Live(object))
			content.keep(values)
			return err
		},
	}
}

// Texts are objects as a list of YAML.
func Texts(objects []Object) (types.List, error) {
	texts := []string{}
	for _, object := range objects {
		text, err := object.YAML()
		if err != nil {
			return types.ListNull(types.StringType), err
		}
		texts = append(texts, text)
	}
	return attribute.StringListValue(texts), nil
}

// TextsOf is the attribute manifests of a data source: objects as YAML, by Live.Texts.
// whose begins the sentence, and resource writes them.
func TextsOf[P any](whose, resource string) attribute.Field[P] {
	return attribute.ByHooks[P]("manifests", schema.ListAttribute{
		MarkdownDescription: whose + " as YAML, except those that `" + resource + "` wrote from `manifests_wo`. " +
			"Secrets among them are read in full, and are then in the state.",
		Computed: true, Sensitive: true, ElementType: types.StringType,
	})
}

// Texts are the objects that may be read, as a list of YAML.
func (l Live) Texts() (types.List, error) {
	open, _, err := l.Read(nil)
	if err != nil {
		return types.ListNull(types.StringType), err
	}
	return Texts(open)
}

// Conditions is the attribute conditions of a resource: without their times, which would
// make a difference where nothing has happened. kinds ends the description of their types.
func Conditions[P any](description, kinds string, read func(P) []metav1.Condition) attribute.Field[P] {
	type condition = metav1.Condition
	return attribute.ReportedObjects("conditions", description, read,
		attribute.ReportedText("type", "Type of the condition"+kinds+".", func(c condition) string { return c.Type }),
		attribute.ReportedText("status", "`True`, `False` or `Unknown`.",
			func(c condition) metav1.ConditionStatus { return c.Status }),
		attribute.ReportedText("reason", "Reason in one word.", func(c condition) string { return c.Reason }),
		attribute.ReportedText("message", "Reason in a sentence.", func(c condition) string { return c.Message }))
}
