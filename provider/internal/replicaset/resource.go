// Package replicaset has the resource and the data source
// muster_manifest_work_replica_set: the same objects for every cluster that
// placements select.
package replicaset

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/preview"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

type (
	replicaSet = *workv1alpha1.ManifestWorkReplicaSet
	change     = crud.Change[replicaSet]
)

// Set is the kind of muster_manifest_work_replica_set.
func Set() crud.Declared {
	return &crud.Kind[replicaSet]{
		Type: "manifest_work_replica_set", Noun: "manifest work replica set",
		Empty: &workv1alpha1.ManifestWorkReplicaSet{},
		Description: "The same Kubernetes objects for every cluster that placements select: " +
			"the hub keeps a manifest work in each of them, creates and deletes works as the selection changes, " +
			"and rolls out changes by the given strategy.\n\n" +
			"The hub's feature gate `ManifestWorkReplicaSet` has to be on, which is the default on a muster hub. " +
			"Planning and applying need no managed cluster. To wait until a change has arrived everywhere, set `wait`.",
		Keys: []crud.Key{
			{
				Name: "namespace", DataDescription: "Namespace of the replica set.",
				Valid: attribute.ValidName("namespace"),
				Description: "Namespace on the hub, that of the placements. It has to exist. Changing it replaces " +
					"the replica set.",
			},
			{
				Name: "name", DataDescription: "Name of the replica set.", Valid: validName(),
				Description: "Name of the replica set, without dots. `<namespace>.<name>` becomes a label of the " +
					"works, so both together have at most 63 characters. The names of the works begin with it. " +
					"Changing it replaces the replica set.",
			},
		},
		Table: append(specTable(), statusTable()...),
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,",
			Update: "changing, with `wait`,",
			Delete: "deleting the replica set, with the policy `Foreground` its works too,",
		},
		Hooks: hooks(),
		List: &crud.List[replicaSet]{
			Plural: "manifest work replica sets", Objects: &workv1alpha1.ManifestWorkReplicaSetList{},
			Describe: func(object replicaSet) string {
				return crud.Count(len(content().Template(object).Manifests), "object")
			},
		},
		Data: &crud.Data[replicaSet]{
			Description: "A manifest work replica set, with how far its rollout is and the works that it has in " +
				"the clusters.\n\n" +
				"Terraform takes a data source with a sensitive attribute, as `manifests` is, for sensitive as a " +
				"whole. An output has to name other attributes, such as `works`.",
			Others:  "kubectl get manifestworkreplicasets -A",
			Without: []string{"generation"},
			Table:   dataTable(nil),
			Also:    readData,
		},
	}
}

// specTable has the attributes of the replica set, without its names.
func specTable() attribute.Table[replicaSet] {
	options := manifestwork.Options("spec.manifestWorkTemplate",
		func(object replicaSet) *workv1.ManifestWorkSpec { return &object.Spec.ManifestWorkTemplate },
		"What happens to a work's objects when it is deleted. If omitted, they are deleted with it. "+
			"A work that the hub deletes by `ttl_seconds_after_finished` is re-created by the replica set.")
	fields := append(append(options, content().Table()...),
		attribute.LabelsField[replicaSet]("Labels of the replica set. A work gets them too, the next time its "+
			"manifests are rolled out."),
		attribute.AnnotationsBeside[replicaSet]("Annotations of the replica set. The works don't get them. That of "+
			"its gates is `gates`, that of its override `values` and `overrides`.",
			attribute.BesideGates(map[string]string{
				muster.OverrideAnnotation: "use values and overrides",
			})).
			Importing(func(key string) bool {
				return key != work.WriteOnlyAnnotation && key != muster.RolloutGatesAnnotation &&
					key != muster.OverrideAnnotation &&
					attribute.ImportableAnnotation(key)
			}),
		attribute.GatesField[replicaSet](),
	)
	return append(append(fields, overrideFields()...),
		placementsField(),
		attribute.Text("cascade_deletion_policy", schema.StringAttribute{
			MarkdownDescription: "How the replica set is deleted. The works are deleted either way. `Background`: " +
				"the replica set is gone at once. `Foreground`: it stays, and `terraform destroy` waits, until they " +
				"are gone. Defaults to `Background`.",
			Optional: true, Computed: true,
			Default: stringdefault.StaticString(string(workv1alpha1.CascadeDeletionPolicyBackground)),
			Validators: attribute.OneOf(
				workv1alpha1.CascadeDeletionPolicyBackground, workv1alpha1.CascadeDeletionPolicyForeground),
		}, func(object replicaSet) *workv1alpha1.CascadeDeletionPolicy { return &object.Spec.CascadeDeletionPolicy }),
		attribute.Local[replicaSet]("wait", waitAttribute().Schema()),
		workload.PreviewField[replicaSet](),
		attribute.Local[replicaSet]("ready",
			attribute.Ready("Whether what `wait` asks for was met; null without `wait`.")),
		attribute.Local[replicaSet]("rolled_out", rolledOutAttribute()),
		workload.Generation[replicaSet]("replica set"),
	)
}

// content is where a replica set has the objects of its works.
func content() workload.Kind[replicaSet] {
	return workload.Kind[replicaSet]{
		Template: func(object replicaSet) *workv1.ManifestsTemplate {
			return &object.Spec.ManifestWorkTemplate.Workload
		},
		Rules: workload.OfWorks(),
	}
}

func hooks() crud.Hooks[replicaSet] {
	h := content().Hooks()
	h.Validate, h.Plan, h.Follow = validate, plan, follow
	h.Preview = func(ctx context.Context, p crud.Previewing[replicaSet]) {
		if checkClusters(ctx, p); p.Diagnostics.HasError() {
			return
		}
		workload.Preview(ctx, p, what(p.Object), func(ctx context.Context) ([]preview.Question, error) {
			return questions(ctx, p)
		})
	}
	// It hides what is secret, and says what to do about a hub that refuses all replica sets.
	h.Mask = func(ctx context.Context, of, config crud.Source, diags *diag.Diagnostics) {
		workload.Mask(ctx, of, config, diags)
		for i, d := range *diags {
			if strings.Contains(d.Detail(), work.RefusedReplicaSet) {
				(*diags)[i] = diag.NewErrorDiagnostic(d.Summary(),
					"The hub makes no works of replica sets. "+replicaSetGateRemedy())
			}
		}
	}
	h.Shown = func(values attribute.Values, live replicaSet) replicaSet {
		return masked(live, workload.ContentOf(values))
	}
	// It takes the mark of the last write, and warns of what has failed since.
	h.Reading = func(ctx context.Context, c *change) {
		values := c.Prior
		reading, cancel := context.WithTimeout(ctx, hub.ReadBudget)
		defer cancel()
		warnOfFailures(reading, c.Hub.PlanClient(), c.Object, workload.ContentOf(values).Places(), c.Diagnostics)
		written := noted(ctx, c.Private, c.Diagnostics)
		values["rolled_out"] = types.BoolValue(rolledOut(c.Object, written))
		crud.StayReady(values, func() bool { return len(waitOf(values).missing(c.Object, written)) == 0 })
	}
	h.Imported = func(values attribute.Values, live replicaSet) error {
		values["rolled_out"] = types.BoolValue(rolledOut(live, nil))
		return content().Hooks().Imported(values, live)
	}
	h.Going = func(c *change) *crud.Going {
		return &crud.Going{Works: func(w *workv1.ManifestWork) bool {
			return w.Labels[work.ReplicaSetLabel] == replicaSetLabel(c.Keys[0], c.Keys[1])
		}}
	}
	h.Late = func(ctx context.Context, c *change) (summary, detail string) {
		return "Not removed yet: " + c.What, describeReplicaSetDeletion(ctx, c.Client, c.Object, c.Timeout)
	}
	return h
}

// follow is what comes after the replica set was written.
func follow(ctx context.Context, c *change) crud.Follow {
	values, written := c.Plan, noteWrite(ctx, c)
	f := crud.Follow{Attribute: waitAttribute(), Report: c.TakeReports}
	if values["rolled_out"].IsUnknown() {
		f.Report = func() {
			c.TakeReports()
			values["rolled_out"] = types.BoolValue(rolledOut(c.Object, written))
		}
	}
	f.Report()
	if wait := waitOf(values); wait != nil {
		f.Wait = wait.wait(c.Client, c.Object, written, c.Timeout).Run
	}
	return f
}

// what names a replica set in messages.
func what(object replicaSet) string {
	return fmt.Sprintf("manifest work replica set %q", object.Namespace+"/"+object.Name)
}

// replicaSetLabel is the value of the label by which works name their replica set.
func replicaSetLabel(namespace, name string) string { return namespace + "." + name }

// placementsField is where a replica set's works go.
func placementsField() attribute.Field[replicaSet] {
	type reference = *workv1alpha1.LocalPlacementReference
	return attribute.Objects("placements",
		schema.ListNestedAttribute{
			MarkdownDescription: "Placements in the same namespace; each of their clusters gets a work. A cluster " +
				"that two of them select gets two.",
			Required:   true,
			Validators: []validator.List{validPlacements()},
		},
		func(object replicaSet) *[]workv1alpha1.LocalPlacementReference { return &object.Spec.PlacementRefs },
		attribute.Text("name", attribute.Required("Name of the placement.", attribute.ValidName("placement name")),
			func(r reference) *string { return &r.Name }),
		workload.RolloutField("If omitted, it goes to all of them at once and waits forever. A cluster is done when "+
			"its work is applied and its condition `Progressing` is `False`, and has failed when `Progressing` and "+
			"`Degraded` are both `True`. muster's agents report both for the usual kinds by default; agents of "+
			"other hubs need `condition_rules` that yield `Progressing`, and on those hubs a rollout without them "+
			"stops after its first clusters.",
			"If omitted, or greater than the number of these clusters, it is no limit.",
			func(r reference) *clusterv1alpha1.RolloutStrategy { return &r.RolloutStrategy })).
		At("spec.placementRefs").KeepsWording()
}

// validPlacements refuses an empty list and placements that are named twice.
func validPlacements() validator.List {
	return attribute.ValidList("at least one placement, each named once",
		func(at path.Path, list types.List, diags *diag.Diagnostics) {
			if len(list.Elements()) == 0 {
				diags.AddAttributeError(at, "No placements", "placements = [] selects no cluster, so the replica set "+
					"would have nothing to do, and the hub refuses it. Name at least one placement of the namespace.")
			}
			seen := attribute.Seen{}
			for i, placement := range attribute.EachObject(list) {
				if name := placement.Text("name"); name != "" {
					seen.Again(name, at.AtListIndex(i), "Duplicate placement", fmt.Sprintf("both name %q, and the hub "+
						"could not tell which strategy holds. Remove one of them.", name), diags)
				}
			}
		})
}

// What is checked and decided of a replica set while planning.

func validate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var namespace, name types.String
	diags.Append(config.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
	diags.Append(config.GetAttribute(ctx, path.Root("name"), &name)...)
	checkReplicaSetLabel(namespace, name, diags)
	c, values := workload.Of(ctx, config, diags), attribute.ValuesOf(ctx, config, diags)
	if !diags.HasError() {
		rules := workload.OfWorks()
		if workload.Overridden(values) {
			rules = rules.FilledIn(override.HasPlaceholder)
		}
		diags.Append(c.Check(rules)...)
		manifestwork.CheckOptions(ctx, config, c, diags)
	}
	workload.CheckOverride(values, diags)
}

// plan keeps the old wording of manifests where the new one means the same, and what the
// hub reports where nothing changes.
func plan(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() {
		return false
	}
	changed := workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return false
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	respecified := changed || changes.In(
		"delete_option", "manifest_configs", "executor", "placements", "cascade_deletion_policy",
		"values", "overrides")
	workload.PlanOverride(ctx, r, attribute.ValuesOf(ctx, resp.Plan, &resp.Diagnostics), &resp.Diagnostics)
	workload.PlanReports(ctx, req, resp, respecified,
		[]string{"summary", "placement_summaries", "conditions"}, "rolled_out")
	return changed || changes.Beyond(append(append(specTable(), statusTable()...).Unwritten(),
		"fields", "force_conflicts", "timeouts")...)
}

// What can be told about a replica set before the hub is asked.

// validName admits names that can be told apart from their namespace again.
func validName() validator.String {
	const form = "lower-case letters, digits and hyphens, with a letter or digit at both ends, and no dots"
	return attribute.ValidText(form,
		func(_ path.Path, name string) (summary, detail string) {
			if !strings.Contains(name, ".") {
				return attribute.CheckLabel("replica set name", name)
			}
			return "Invalid replica set name", fmt.Sprintf("name = %q has dots. The works carry <namespace>.<name> as "+
				"a label by which the hub finds the replica set again, and it reads that up to the dot. Try %q.",
				name, attribute.SuggestName(name))
		})
}

// checkReplicaSetLabel reports a namespace and a name that are too long
// together. Nothing is said while one of them is unknown or wrong by itself.
func checkReplicaSetLabel(namespace, name types.String, diags *diag.Diagnostics) {
	if namespace.IsNull() || namespace.IsUnknown() || name.IsNull() || name.IsUnknown() {
		return
	}
	label := replicaSetLabel(namespace.ValueString(), name.ValueString())
	if len(label) <= validation.LabelValueMaxLength {
		return
	}
	diags.AddAttributeError(path.Root("name"), "Namespace and name are too long",
		fmt.Sprintf("%q, the namespace and the name, has %d characters. The works carry both as one label, whose "+
			"value can have %d at most. Shorten one of them by %d.",
			label, len(label), validation.LabelValueMaxLength, len(label)-validation.LabelValueMaxLength))
}
