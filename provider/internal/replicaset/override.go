package replicaset

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

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// What differs from cluster to cluster: the attributes values and overrides, which are the
// annotation with the override.

type (
	overrideSpec  = *v1alpha1.WorkOverrideSpec
	overrideValue = *v1alpha1.OverrideValue
	manifestPatch = *v1alpha1.ManifestOverride
)

// overrideFields are values and overrides. Their lines in the table come after that of the
// annotations.
func overrideFields() []attribute.Field[replicaSet] {
	var fields []attribute.Field[replicaSet]
	for _, f := range attribute.Through(inlineOverride, putOverride, valuesField(), patchesField()) {
		fields = append(fields, f.AtAnnotation(muster.OverrideAnnotation).BesideOthers())
	}
	return fields
}

// inlineOverride is the override that a set has itself; an empty one where it has none.
func inlineOverride(set replicaSet) overrideSpec {
	if ref, err := override.ReferenceOf(set.Annotations); err == nil && ref.Inline != nil {
		return ref.Inline
	}
	return &v1alpha1.WorkOverrideSpec{}
}

func putOverride(spec overrideSpec, set replicaSet) {
	data, _ := json.Marshal(spec) // of what was read from JSON
	set.Annotations = attribute.OrEmpty(set.Annotations)
	set.Annotations[muster.OverrideAnnotation] = string(data)
}

func valuesField() attribute.Field[overrideSpec] {
	return attribute.Objects(
		"values",
		schema.ListNestedAttribute{
			MarkdownDescription: "What differs from cluster to cluster. `{{REGION}}` in a text of the objects stands " +
				"for the value named `REGION`; a text that is nothing but a placeholder becomes a number or a " +
				"boolean where the value is one. `{{CLUSTER_NAME}}` and `{{CLUSTER_URL}}` stand for the cluster's " +
				"name and the address of its API server, as soon as `values` or `overrides` is set. A cluster " +
				"without a value gets nothing new, and keeps what it has. See the guide [Values per " +
				"cluster](../guides/overrides.md).",
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

// overridden reports whether the values of a resource have an override.
func overridden(values attribute.Values) bool {
	return values.IsSet("values") || values.IsSet("overrides")
}

// checkOverride refuses an override that the hub would refuse, as far as it is known.
func checkOverride(values attribute.Values, diags *diag.Diagnostics) {
	for _, name := range []string{"values", "overrides"} {
		if values[name] != nil && !attribute.Known(values[name]) {
			return
		}
	}
	if !overridden(values) {
		return
	}
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	attribute.Table[replicaSet](overrideFields()).Write(values, set)
	if _, err := override.Read(*inlineOverride(set)); err != nil {
		at, said := placeOfOverride(err)
		diags.AddAttributeError(at, "Invalid override", "The hub would refuse it: "+said+".")
	}
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

// planOverride refuses a plan for a hub that would hand out placeholders as they are.
func planOverride(ctx context.Context, r *crud.Resource, values attribute.Values, diags *diag.Diagnostics) {
	client := r.Hub.PlanClient()
	if client == nil || !overridden(values) {
		return
	}
	if has, err := r.Hub.Has(ctx, client, hubinfo.WorkOverride); err == nil && !has {
		at := "values"
		if !values.IsSet(at) {
			at = "overrides"
		}
		diags.AddAttributeError(
			path.Root(at),
			"The hub has no overrides",
			"The hub would give every cluster the objects as they are written, with their placeholders: it needs "+
				"to be a "+
				"muster hub with the feature gate WorkOverride, which is on by default. Leave out values and "+
				"overrides, or use "+
				"such a hub.",
		)
	}
}

// templateOf is what each cluster gets of a set with an override; nil for one without.
func templateOf(ctx context.Context, client *kube.Client, set replicaSet) (*override.Template, error) {
	return override.Of(set, func(name string) (*v1alpha1.WorkOverride, error) {
		o := &v1alpha1.WorkOverride{}
		return o, client.Get(ctx, o, set.Namespace, name)
	})
}

// shownClusters is how many clusters an error lists.
const shownClusters = 20

// checkClusters refuses a plan in which a cluster that is selected at present lacks a value.
// Clusters that can't be read are left to the hub.
func checkClusters(ctx context.Context, p crud.Previewing[replicaSet]) {
	if p.Deletes || !overridden(p.Values) {
		return
	}
	template, err := templateOf(ctx, p.Client, p.Object)
	if err != nil || template == nil {
		return // the hub has refused it in its dry run
	}
	seen := map[string]bool{}
	var without []string
	for _, ref := range p.Object.Spec.PlacementRefs {
		clusters, err := chosen(ctx, p.Client, p.Object.Namespace, ref.Name)
		if err != nil {
			return
		}
		for _, name := range clusters {
			mc := &clusterv1.ManagedCluster{}
			if seen[name] || p.Client.Get(ctx, mc, "", name) != nil {
				continue
			}
			seen[name] = true
			if _, err := template.For(ctx, mc); err != nil && ctx.Err() == nil {
				_, said := placeOfOverride(errors.New(strings.ReplaceAll(err.Error(), "\n", ", ")))
				without = append(without, fmt.Sprintf("  %s: %s", name, said))
			}
		}
	}
	if len(without) == 0 {
		return
	}
	slices.Sort(without)
	at := "values"
	if !p.Values.IsSet(at) {
		at = "overrides"
	}
	p.Diagnostics.AddAttributeError(
		path.Root(at),
		"Clusters without their own content",
		fmt.Sprintf(
			"%s could not give %d of %d selected clusters what they are to have:\n\n%s\n\nGive the clusters what "+
				"is missing, "+
				"give the value a default, or have the placement leave them out.",
			attribute.Capitalize(what(p.Object)),
			len(without),
			len(seen),
			attribute.JoinLines(text.First(without, shownClusters)),
		),
	)
}
