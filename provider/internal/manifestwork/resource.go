// Package manifestwork has the resource and the data source
// muster_manifest_work: Kubernetes objects for one managed cluster. Package
// replicaset shares its options.
package manifestwork

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/preview"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type (
	manifestWork = *workv1.ManifestWork
	change       = crud.Change[manifestWork]
)

// Work is the kind of muster_manifest_work.
func Work() crud.Declared {
	return &crud.Kind[manifestWork]{
		Type: "manifest_work", Noun: "manifest work", Empty: &workv1.ManifestWork{},
		Description: "Kubernetes objects for one managed cluster. Its agent applies them there, keeps them as " +
			"described, reports on them, and deletes them with the work.\n\n" +
			"Planning and applying need the hub only: a cluster that is unavailable gets the work when it is back. " +
			"To wait until the objects are in place, set `wait`. Destroying waits until the agent has removed the " +
			"objects.",
		Keys: []crud.Key{
			{
				Name: "managed_cluster", DataDescription: "Name of the managed cluster.",
				Valid: attribute.ValidClusterName(),
				Description: "Name of the managed cluster. It has to be accepted. " +
					"Changing it moves the work: the objects are removed from the old cluster.",
			},
			{
				Name: "name", DataDescription: "Name of the work.", Valid: attribute.ValidObjectName("work name"),
				Description: "Name of the work, unique for its cluster. Changing it replaces the work.",
			},
		},
		Table: table(),
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,",
			Update: "changing, with `wait`,",
			Delete: "removing the objects from the cluster",
		},
		InCluster: true,
		Traced:    true,
		Hooks:     hooks(),
		List: &crud.List[manifestWork]{
			Plural: "manifest works", Objects: &workv1.ManifestWorkList{},
			About: "Works of replica sets and of add-ons count as made by a controller.",
			Generated: func(object manifestWork) bool {
				return object.Labels[work.ReplicaSetLabel] != "" || object.Labels[cluster.AddOnNameLabel] != "" ||
					len(object.OwnerReferences) > 0
			},
			Cluster: func(object manifestWork) string { return object.Namespace },
			Describe: func(object manifestWork) string {
				return crud.Count(len(object.Spec.Workload.Manifests), "object")
			},
		},
		Data: &crud.Data[manifestWork]{
			Description: "The present state of one manifest work, of any origin: its objects, " +
				"and what the cluster's agent reports of them.\n\n" +
				"Terraform takes a data source with a sensitive attribute, as `manifests` is, for sensitive as a " +
				"whole. An output has to name other attributes, such as `resources`.",
			Others: "kubectl get manifestworks -n NAMESPACE",
			Without: []string{
				"annotations", "delete_option", "manifest_configs", "executor", "generation", "conditions", "feedback",
			},
			Table: dataTable(),
			Also:  readData,
		},
	}
}

// table has the attributes of the work, without its names.
func table() attribute.Table[manifestWork] {
	options := Options("spec", func(object manifestWork) workSpec { return &object.Spec },
		"What happens to the objects when the work is deleted. If omitted, they are deleted with it.")
	return append(append(options, content().Table()...),
		attribute.LabelsField[manifestWork]("Labels of the work itself."),
		attribute.AnnotationsField[manifestWork]("Annotations of the work itself.", work.WriteOnlyAnnotation),
		attribute.Local[manifestWork]("placement", placementAttribute()),
		attribute.Local[manifestWork]("wait", waitAttribute().Schema()),
		workload.PreviewField[manifestWork](),
		attribute.Local[manifestWork]("ready",
			attribute.Ready("Whether the conditions that `wait` names were met; null without `wait`.")),
		workload.Generation[manifestWork]("work"),
		workload.Conditions("Conditions of the work as last read. They keep changing after an apply; `wait` waits "+
			"for some of them.", ", such as `Applied`",
			func(object manifestWork) []metav1.Condition { return object.Status.Conditions }),
		feedbackField("What the agent reports of the live objects, by `feedback_rules`, as last read. Objects "+
			"without reported values are not listed. "+
			"Values of Secrets, and of objects from `manifests_wo`, read `(sensitive)`: they are never in the state.",
			"The reported values as text, by the names that the rules give them."),
	)
}

// content is where a work has its objects.
func content() workload.Kind[manifestWork] {
	return workload.Kind[manifestWork]{
		Template: func(object manifestWork) *workv1.ManifestsTemplate { return &object.Spec.Workload },
		Rules:    workload.OfWorks(),
	}
}

func hooks() crud.Hooks[manifestWork] {
	h := content().Hooks()
	h.Validate, h.Plan = validate, plan
	h.Shown = func(values attribute.Values, live manifestWork) manifestWork {
		return masked(live, workload.ContentOf(values))
	}
	h.Preview = func(ctx context.Context, p crud.Previewing[manifestWork]) {
		q := preview.Question{Cluster: p.Object.Namespace, Work: p.Object.Name, Spec: &p.Object.Spec}
		if p.Deletes {
			q.Spec = nil
		}
		workload.Preview(ctx, p, what(p.Object), func(context.Context) ([]preview.Question, error) {
			return []preview.Question{q}, nil
		})
	}
	h.BeforeWrite = func(ctx context.Context, c *change) bool {
		return c.Prior != nil || !c.Plan.IsSet("placement") || waitUntilChosen(ctx, c)
	}
	h.Follow = func(ctx context.Context, c *change) crud.Follow {
		f := crud.Follow{Attribute: waitAttribute()}
		if wait := waitOf(c.Plan); wait != nil {
			places := workload.ContentOf(c.Plan).PlacesWith(ctx, c.Config)
			f.Wait = wait.wait(c.Client, c.Object, c.Timeout, places).Run
		}
		return f
	}
	h.Reading = func(_ context.Context, c *change) {
		values, live, diags := c.Prior, c.Object, c.Diagnostics
		crud.StayReady(values, func() bool { return len(waitOf(values).missing(live)) == 0 })
		places := workload.ContentOf(values).Places()
		warnOfContest(live, places, diags)
		warnOfFailure(live, places, diags)
	}
	h.Going = func(c *change) *crud.Going {
		return &crud.Going{Cluster: c.Keys[0], Works: func(w manifestWork) bool { return w.Name == c.Keys[1] }}
	}
	h.Late = func(ctx context.Context, c *change) (summary, detail string) {
		return "Not removed yet: " + c.What, describeDeletion(ctx, c.Client, c.Object, c.Timeout)
	}
	return h
}

// what names a work in messages.
func what(object manifestWork) string {
	return fmt.Sprintf("manifest work %q", object.Namespace+"/"+object.Name)
}

// What is checked and decided of a work while planning.

// validate checks the objects of all inputs together: what the hub or the agent would
// refuse later.
func validate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	c := workload.Of(ctx, config, diags)
	if diags.HasError() {
		return
	}
	diags.Append(c.Check(workload.OfWorks())...)
	CheckOptions(ctx, config, c, diags)
}

// plan keeps the objects' old wording where the new one means the same, lists their
// fields, plans a wait where one is due, and has the hub check the complete work.
func plan(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	state := attribute.ValuesOf(ctx, req.State, &resp.Diagnostics)
	if req.Plan.Raw.IsNull() {
		if !r.Hub.HasWritten() {
			cluster := state.Text("managed_cluster")
			crud.WarnOfLostCluster(ctx, r.Hub.PlanClient(), cluster, named(state), &resp.Diagnostics)
		}
		return false
	}
	changed := workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return false
	}
	planned := attribute.ValuesOf(ctx, resp.Plan, &resp.Diagnostics)
	warnOfShared(ctx, r.Hub, req.Config, planned, &resp.Diagnostics)
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	respecified := changed || changes.In("delete_option", "manifest_configs", "executor")
	if respecified {
		warnOfComplete(planned, state, &resp.Diagnostics)
	}
	workload.PlanReports(ctx, req, resp, respecified, []string{"conditions", "feedback"})
	return changed || changes.Beyond(append(table().Unwritten(), "fields", "force_conflicts", "timeouts")...)
}

// named is what for a plan or a state.
func named(values attribute.Values) string {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name = values.Text("managed_cluster"), values.Text("name")
	return what(object)
}

// warnOfShared warns of objects that another work of this plan brings to the same
// cluster with another content. The agent would write one over the other.
func warnOfShared(
	ctx context.Context, h *hub.Hub, config tfsdk.Config, planned attribute.Values, diags *diag.Diagnostics,
) {
	if planned["managed_cluster"].IsUnknown() || planned["name"].IsUnknown() {
		return
	}
	cluster := planned.Text("managed_cluster")
	var lines []string
	objects, _ := workload.Of(ctx, config, &diag.Diagnostics{}).Known()
	for _, object := range objects {
		digest := sha256.Sum256(object.JSON)
		for _, other := range h.NoteHeld(cluster, planned.Text("name"), object.Key(), string(digest[:])) {
			lines = append(lines, fmt.Sprintf("  %s, which the work %q holds, too", object, other))
		}
	}
	if len(lines) == 0 || h.HasWritten() {
		return
	}
	diags.AddWarning("Held by several works: objects of "+named(planned),
		fmt.Sprintf("Another work of the cluster %q has the same objects with another content:\n%s\n\n"+
			"The agent would write each over the other, less and less often. Let one work hold an object, or give "+
			"both the same content.",
			cluster, attribute.JoinLines(attribute.Sorted(lines))))
}

// warnOfComplete warns of a change of a work that is Complete, and can be Complete
// again: it is not applied.
func warnOfComplete(planned, state attribute.Values, diags *diag.Diagnostics) {
	conditions, _ := state["conditions"].(types.List)
	for _, element := range conditions.Elements() {
		object, _ := element.(types.Object)
		c := attribute.Values(object.Attributes())
		if c.Text("type") == work.ConditionComplete && c.Text("status") == string(metav1.ConditionTrue) &&
			named(state) == named(planned) && workload.CanComplete(optionsOf(planned["manifest_configs"])) {
			diags.AddWarning("The change will not be applied: "+named(planned), workload.FinishedAdvice)
		}
	}
}
