package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// What differs from cluster to cluster: the attributes values and overrides of a replica set
// and of an add-on's template, which are the annotation with the override.

type (
	overrideSpec  = *v1alpha1.WorkOverrideSpec
	overrideValue = *v1alpha1.OverrideValue
	manifestPatch = *v1alpha1.ManifestOverride
)

// OverrideFields are values and overrides. Their lines in the table come after that of the
// annotations. more is what the description of values says beside what holds for all kinds.
func OverrideFields[O metav1.Object](more string) []attribute.Field[O] {
	var fields []attribute.Field[O]
	for _, f := range attribute.Through(inlineOverride[O], putOverride[O], valuesField(more), patchesField()) {
		fields = append(fields, f.AtAnnotation(muster.OverrideAnnotation).BesideOthers())
	}
	return fields
}

// inlineOverride is the override that an object has itself; an empty one where it has none.
func inlineOverride[O metav1.Object](object O) overrideSpec {
	if ref, err := override.ReferenceOf(object.GetAnnotations()); err == nil && ref.Inline != nil {
		return ref.Inline
	}
	return &v1alpha1.WorkOverrideSpec{}
}

func putOverride[O metav1.Object](spec overrideSpec, object O) {
	data, _ := json.Marshal(spec) // of what was read from JSON
	annotations := attribute.OrEmpty(object.GetAnnotations())
	annotations[muster.OverrideAnnotation] = string(data)
	object.SetAnnotations(annotations)
}

// PutOverride gives an object the override of values, which may be empty.
func PutOverride(values attribute.Values, object metav1.Object) {
	putOverride(inlineOverride(object), object)
	attribute.Table[metav1.Object](OverrideFields[metav1.Object]("")).Write(values, object)
}

func valuesField(more string) attribute.Field[overrideSpec] {
	return attribute.Objects(
		"values",
		schema.ListNestedAttribute{
			MarkdownDescription: "What differs from cluster to cluster. `{{REGION}}` in a text of the objects stands " +
				"for the value named `REGION`; a text that is nothing but a placeholder becomes a number or a " +
				"boolean where the value is one. " + more + "A cluster without a value gets nothing new, and keeps " +
				"what it has. See the guide [Values per cluster](../guides/overrides.md).",
			Optional: true,
			NestedObject: schema.NestedAttributeObject{
				Validators: []validator.Object{attribute.ExactlyOne("label", "claim", "expression")},
			},
		},
		func(s overrideSpec) *[]v1alpha1.OverrideValue { return &s.Values },
		attribute.Text(
			"name",
			attribute.Required("What placeholders call the value: upper-case letters, digits and `_`."),
			func(v overrideValue) *string { return &v.Name },
		),
		attribute.TextPointer("label", attribute.Optional("Label of the managed cluster that has the value.",
			attribute.ValidKey("label")),
			func(v overrideValue) **string { return &v.Label }),
		attribute.TextPointer("claim", attribute.Optional("Claim of the managed cluster that has the value. Its agent "+
			"writes claims.", attribute.LengthBetween(1, 253)),
			func(v overrideValue) **string { return &v.Claim }),
		attribute.TextPointer("expression", attribute.Optional("Expression in the Common Expression Language over the "+
			"variable `managedCluster`, whose result is a text, a number or a boolean. It sees the name, labels, "+
			"annotations, addresses, version and claims of the cluster.", attribute.LengthBetween(1, 4096)),
			func(v overrideValue) **string { return &v.Expression }),
		attribute.TextPointer("default", attribute.Optional("Value of clusters without the label or the claim.",
			attribute.LengthBetween(0, 1024)),
			func(v overrideValue) **string { return &v.Default }),
	).
		At("spec.values")
}

func patchesField() attribute.Field[overrideSpec] {
	selector := func(p manifestPatch) *clusterv1beta1.ClusterSelector { return &p.ClusterSelector }
	return attribute.Objects("overrides",
		schema.ListNestedAttribute{
			MarkdownDescription: "Patches of objects in some clusters, in this order, before placeholders are filled " +
				"in.",
			Optional: true,
		},
		func(s overrideSpec) *[]v1alpha1.ManifestOverride { return &s.Overrides },
		append(
			attribute.ClusterSelectorFields(selector),
			attribute.Object(
				"object",
				attribute.RequiredObject("Objects to change, as they are in the configuration. One of "+
					"them has to match at least."),
				func(p manifestPatch) *v1alpha1.ManifestSelector { return &p.Manifests },
				attribute.Text("kind", attribute.Required("Kind, such as `Deployment`.", attribute.NotEmpty()),
					func(m *v1alpha1.ManifestSelector) *string { return &m.Kind }),
				attribute.TextPointer("group",
					attribute.Optional("API group of the kind, `\"\"` for the core group; every group if omitted.",
						attribute.LengthBetween(0, 253)),
					func(m *v1alpha1.ManifestSelector) **string { return &m.Group }),
				attribute.TextPointer("namespace",
					attribute.Optional("Namespace; every one if omitted.", attribute.NotEmpty()),
					func(m *v1alpha1.ManifestSelector) **string { return &m.Namespace }),
				attribute.TextPointer("name", attribute.Optional("Name; every one if omitted.", attribute.NotEmpty()),
					func(m *v1alpha1.ManifestSelector) **string { return &m.Name }),
			),
			attribute.Text("type", schema.StringAttribute{
				MarkdownDescription: "`Merge`: `patch` is merged into the object (RFC 7396). `Strategic`: as " +
					"`Merge`, and lists of Kubernetes' own kinds are merged by their keys, as `kubectl patch` does. " +
					"`JSON`: a list of operations (RFC 6902).",
				Required:   true,
				Validators: attribute.OneOf(v1alpha1.PatchMerge, v1alpha1.PatchStrategic, v1alpha1.PatchJSON),
			}, func(p manifestPatch) *v1alpha1.OverridePatch { return &p.Type }),
			attribute.Code("patch", attribute.Required("The patch as JSON: write it with `jsonencode`.", validPatch()),
				func(value types.String, to manifestPatch) {
					to.Patch = apiextensionsv1.JSON{Raw: []byte(value.ValueString())}
				},
				func(from manifestPatch) types.String { return types.StringValue(string(from.Patch.Raw)) }),
		)...).
		At("spec.overrides")
}

func validPatch() validator.String {
	return attribute.ValidText("JSON", func(at path.Path, given string) (summary, detail string) {
		if json.Valid([]byte(given)) {
			return "", ""
		}
		return "Invalid patch", fmt.Sprintf(
			"%s is no JSON: %s. Write it with jsonencode.",
			attribute.Place(at),
			text.Cut(given, 100),
		)
	})
}

// Overridden reports whether the values of a resource have an override.
func Overridden(values attribute.Values) bool {
	return values.IsSet("values") || values.IsSet("overrides")
}

// ValueNames are the names of the values of a resource, as far as they are known.
func ValueNames(values attribute.Values) (names []string) {
	object := &metav1.ObjectMeta{}
	if attribute.Known(values["values"]) {
		PutOverride(attribute.Values{"values": values["values"]}, object)
	}
	for _, v := range inlineOverride[metav1.Object](object).Values {
		names = append(names, v.Name)
	}
	return names
}

// CheckOverride refuses an override that the hub would refuse, as far as it is known.
func CheckOverride(values attribute.Values, diags *diag.Diagnostics) {
	for _, name := range []string{"values", "overrides"} {
		if values[name] != nil && !attribute.Known(values[name]) {
			return
		}
	}
	if !Overridden(values) {
		return
	}
	object := &metav1.ObjectMeta{}
	PutOverride(values, object)
	if _, err := override.Read(*inlineOverride[metav1.Object](object)); err != nil {
		RefuseOverride(err, diags)
	}
}

// RefuseOverride adds the error of an override that the hub would refuse.
func RefuseOverride(err error, diags *diag.Diagnostics) {
	at, said := placeOfOverride(err)
	diags.AddAttributeError(at, "Invalid override", "The hub would refuse it: "+said+".")
}

// LacksText is the error of a cluster without its own content in the words of attributes, in
// one line.
func LacksText(err error) string {
	_, said := placeOfOverride(errors.New(strings.ReplaceAll(err.Error(), "\n", ", ")))
	return said
}

// fieldOfOverride is a field in the error of an override.
var fieldOfOverride = regexp.MustCompile(`^spec\.(values|overrides)(?:\[(\d+)\])?`)

// placeOfOverride is the attribute that an error is about, and what it says with the names of
// attributes.
func placeOfOverride(err error) (path.Path, string) {
	said := strings.NewReplacer("spec.values", "values", "spec.overrides", "overrides",
		"clusterSelector.celSelector.celExpressions",
		"cel_expressions", "clusterSelector", "the selectors", ".manifests", ".object").
		Replace(err.Error())
	found := fieldOfOverride.FindStringSubmatch(err.Error())
	if found == nil {
		return path.Root("values"), said
	}
	at := path.Root(found[1])
	if i, err := strconv.Atoi(found[2]); err == nil {
		at = at.AtListIndex(i)
	}
	return at, said
}

// PlanOverride refuses a plan for a hub that would hand out placeholders as they are.
func PlanOverride(ctx context.Context, r *crud.Resource, values attribute.Values, diags *diag.Diagnostics) {
	client := r.Hub.PlanClient()
	if client == nil || !Overridden(values) {
		return
	}
	if has, err := r.Hub.Has(ctx, client, hubinfo.WorkOverride); err == nil && !has {
		diags.AddAttributeError(
			overrideAttribute(values),
			"The hub has no overrides",
			"The hub would give every cluster the objects as they are written, with their placeholders: it needs "+
				"to be a muster hub with the feature gate WorkOverride, which is on by default. Leave out values "+
				"and overrides, or use such a hub.",
		)
	}
}

// CheckClusters refuses a plan in which a cluster lacks a value. clusters are those that get
// what is planned; those that can't be read are left to the hub. what names the resource.
func CheckClusters[O kube.Object](
	ctx context.Context,
	p crud.Previewing[O],
	what string,
	clusters []string,
	render func(*clusterv1.ManagedCluster) error,
) {
	seen := map[string]bool{}
	var without []string
	for _, name := range clusters {
		mc := &clusterv1.ManagedCluster{}
		if seen[name] || p.Client.Get(ctx, mc, "", name) != nil {
			continue
		}
		seen[name] = true
		if err := render(mc); err != nil && ctx.Err() == nil {
			without = append(without, fmt.Sprintf("  %s: %s", name, LacksText(err)))
		}
	}
	if len(without) == 0 {
		return
	}
	p.Diagnostics.AddAttributeError(overrideAttribute(p.Values), "Clusters without their own content",
		withoutText(what, without, len(seen)))
}

// listedClusters is how many clusters without a value an error lists, each with what it lacks.
const listedClusters = 20

// withoutText says which of some clusters lack a value. without has a line for each.
func withoutText(what string, without []string, clusters int) string {
	slices.Sort(without)
	return fmt.Sprintf("%s could not give %d of %d selected clusters what they are to have:\n\n%s\n\nGive the "+
		"clusters what is missing, give the value a default, or have the placement leave them out.",
		attribute.Capitalize(what), len(without), clusters, attribute.JoinLines(text.First(without, listedClusters)))
}

// overrideAttribute is the attribute that is set of the two.
func overrideAttribute(values attribute.Values) path.Path {
	if values.IsSet("values") {
		return path.Root("values")
	}
	return path.Root("overrides")
}
