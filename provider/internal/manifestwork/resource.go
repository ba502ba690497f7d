package manifestwork

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type manifestWorkModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
	Labels         types.Map    `tfsdk:"labels"`
	Annotations    types.Map    `tfsdk:"annotations"`
	workload.Content
	Options
	Placement      *workPlacementModel `tfsdk:"placement"`
	Wait           *waitModel          `tfsdk:"wait"`
	Ready          types.Bool          `tfsdk:"ready"`
	Generation     types.Int64         `tfsdk:"generation"`
	Conditions     types.List          `tfsdk:"conditions"`
	Feedback       types.List          `tfsdk:"feedback"`
	Adopt          types.Bool          `tfsdk:"adopt"`
	ForceConflicts types.Bool          `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value      `tfsdk:"timeouts"`
}

// Work is the kind of muster_manifest_work.
func Work() crud.Declared {
	return &crud.Kind[manifestWorkModel, *workv1.ManifestWork]{
		Type: "manifest_work", Noun: "manifest work",
		Description: "Kubernetes objects for one managed cluster. Its agent applies them there, keeps them as " +
			"described, reports on them, and deletes them with the work.\n\n" +
			"Planning and applying need the hub only: a cluster that is unavailable gets the work when it is back. " +
			"To wait until the objects are in place, set `wait`. Destroying waits until the agent has removed the " +
			"objects.",
		Keys: []crud.Key{
			{
				Name: "managed_cluster", DataDescription: "Name of the managed cluster.", Valid: attribute.ValidClusterName(),
				Description: "Name of the managed cluster. It has to be accepted. " +
					"Changing it moves the work: the objects are removed from the old cluster.",
			},
			{
				Name: "name", DataDescription: "Name of the work.", Valid: attribute.ValidObjectName("work name"),
				Description: "Name of the work, unique for its cluster. Changing it replaces the work.",
			},
		},
		Empty: &workv1.ManifestWork{},
		Model: &crud.Conversion[manifestWorkModel, *workv1.ManifestWork]{
			Attributes: workAttributes,
			Object:     (*manifestWorkModel).object,
			Observe:    (*manifestWorkModel).observe,
			Import:     importWork,
			Unwanted:   (*manifestWorkModel).unwanted,
			Unwritten:  local,
		},
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,",
			Update: "changing, with `wait`,",
			Delete: "removing the objects from the cluster",
		},
		List:      workList(),
		Data:      workData(),
		InCluster: true,
		Hooks: crud.Hooks[manifestWorkModel, *workv1.ManifestWork]{
			Validate: validate,
			Plan:     plan,
			Own:      func(_ *manifestWorkModel, o *crud.Owned) { o.Discreet = true }, // the manifests may hold secrets
			Mask:     workload.Mask,
			Complete: complete,
			BeforeWrite: func(ctx context.Context, c *change) bool {
				return c.Prior != nil ||
					c.Plan.Placement.waitUntilChosen(ctx, c.Client, c.Keys[0], c.Timeout, c.Diagnostics)
			},
			Follow: follow,
			AfterRead: func(_ context.Context, m *manifestWorkModel, live *workv1.ManifestWork, diags *diag.Diagnostics) {
				m.warnOfFailure(live, diags)
			},
			Going: func(c *change) *crud.Going {
				return &crud.Going{
					Cluster: c.Keys[0],
					Works:   func(w *workv1.ManifestWork) bool { return w.Name == c.Keys[1] },
				}
			},
			Late: func(ctx context.Context, c *change) (summary, detail string) {
				return "Not removed yet: " + c.What, describeWorkDeletion(ctx, c.Client, c.Object, c.Timeout)
			},
		},
	}
}

type change = crud.Change[manifestWorkModel, *workv1.ManifestWork]

// workAttributes are those of the work, without its names.
func workAttributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{
		"labels":      attribute.Labels("Labels of the work itself.", nil),
		"annotations": attribute.Annotations("Annotations of the work itself."),
		"placement":   workPlacementAttribute(),
		"wait":        waitAttribute().Schema(),
		"generation":  workload.Generation("work"),
		"ready":       attribute.Ready("Whether the conditions that `wait` names were met; null without `wait`."),
		"conditions":  workConditionsAttribute(),
		"feedback":    feedbackAttribute(),
	}
	maps.Copy(attributes, workload.Attributes())
	maps.Copy(attributes, OptionAttributes("What happens to the objects when the work is deleted. "+
		"If omitted, they are deleted with it."))
	return attributes
}

// What names the work in messages.
func (m *manifestWorkModel) What() string {
	return fmt.Sprintf("manifest work %q", m.ManagedCluster.ValueString()+"/"+m.Name.ValueString())
}

// complete adds the objects, with those that are in the configuration alone.
func complete(
	ctx context.Context, m *manifestWorkModel, config tfsdk.Config, object *workv1.ManifestWork, diags *diag.Diagnostics,
) {
	m.Put(ctx, config, object, &object.Spec.Workload, diags)
}

// report takes over what the agent has reported so far.
func (m *manifestWorkModel) report(object *workv1.ManifestWork) {
	hide := liveContent(object).Masker(m.Content).Text
	m.Conditions, m.Feedback = WorkConditionsValue(object.Status.Conditions, hide), feedbackValue(object, hide)
}

// written takes over what was only known after the write, and returns what does
// so after the wait. What the plan has shown stays as it was.
func (m *manifestWorkModel) written(object *workv1.ManifestWork) (report func()) {
	if m.Generation.IsUnknown() {
		m.Generation = types.Int64Value(object.Generation)
	}
	if !m.Conditions.IsUnknown() {
		return func() {}
	}
	m.report(object)
	return func() { m.report(object) }
}

// follow is what comes after the work was written.
func follow(ctx context.Context, c *change) crud.Follow {
	m := c.Plan
	f := crud.Follow{Attribute: waitAttribute(), Ready: &m.Ready, Report: m.written(c.Object)}
	if m.Wait != nil {
		f.Wait = m.Wait.wait(c.Client, c.Object, c.Timeout, m.PlacesWith(ctx, c.Config)).Run
	}
	return f
}
