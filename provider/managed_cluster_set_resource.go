package provider

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

var (
	_ resource.ResourceWithConfigure   = (*managedClusterSetResource)(nil)
	_ resource.ResourceWithImportState = (*managedClusterSetResource)(nil)
	_ resource.ResourceWithIdentity    = (*managedClusterSetResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*managedClusterSetResource)(nil)
)

type managedClusterSetResource struct{ hubResource }

type managedClusterSetModel struct {
	Name              types.String        `tfsdk:"name"`
	Labels            types.Map           `tfsdk:"labels"`
	LabelSelector     *labelSelectorModel `tfsdk:"label_selector"`
	ManagedNamespaces []types.String      `tfsdk:"managed_namespaces"`
	Adopt             types.Bool          `tfsdk:"adopt"`
	ForceConflicts    types.Bool          `tfsdk:"force_conflicts"`
}

func newManagedClusterSetResource() resource.Resource { return &managedClusterSetResource{} }

func (r *managedClusterSetResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_managed_cluster_set"
}

func (r *managedClusterSetResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema("name")
}

func (r *managedClusterSetResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A set of managed clusters: the unit in which clusters are handed to teams. A cluster joins the set by its `cluster_set`, or by its labels when the set has a `label_selector`. " +
			"A namespace's placements can select from the set once it is bound there with `muster_managed_cluster_set_binding`.\n\n" +
			"The hub makes the sets `default` and `global` itself and rolls changes of their membership back. A resource for one of them adds its labels and namespaces (with `label_selector = {}` for `global`), needs no `adopt`, " +
			"and when it is destroyed takes only these away: the set stays.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the set. Changing it makes another set.",
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{nameValidator{"cluster set name"}},
			},
			"labels": schema.MapAttribute{
				MarkdownDescription: "Labels of the set itself.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Map{labelsValidator{described: "Kubernetes labels"}},
			},
			"label_selector": labelSelectorAttribute("Makes the clusters with these labels members, whatever other sets they are in. An empty one, `{}`, takes all clusters. " +
				"Left out, the members are the clusters whose `cluster_set` names the set."),
			"managed_namespaces": schema.SetAttribute{
				MarkdownDescription: "Namespaces that the agent of every member creates in its cluster. They stay when the cluster leaves the set.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Set{setvalidator.ValueStringsAre(nameValidator{"namespace"})},
			},
			"adopt":           adoptAttribute(),
			"force_conflicts": forceAttribute(),
		},
	}
}

func (r *managedClusterSetResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan managedClusterSetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.create(ctx, plan.owned(), resp.Private, &resp.Diagnostics) {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, nameIdentity{plan.Name})...)
}

func (r *managedClusterSetResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state managedClusterSetModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, nameIdentity{state.Name})...)
	if resp.Diagnostics.HasError() || r.skipRead(&resp.Diagnostics) {
		return
	}
	object := &clusterv1beta2.ManagedClusterSet{}
	switch found, ok := r.find(ctx, object, "", state.Name.ValueString(), "read "+state.what(), &resp.Diagnostics); {
	case !ok:
		return
	case !found:
		resp.State.RemoveResource(ctx)
		return
	}
	r.recognize(ctx, object, state.what(), req.Private, resp.Private, &resp.Diagnostics)
	state.observe(object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (r *managedClusterSetResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan managedClusterSetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.update(ctx, plan.owned(), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, nameIdentity{plan.Name})...)
}

func (r *managedClusterSetResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state managedClusterSetModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if name := state.Name.ValueString(); isHubSet(name) {
		r.release(ctx, name, state.what(), req.Private, &resp.Diagnostics)
		return
	}
	r.destroy(ctx, &clusterv1beta2.ManagedClusterSet{}, "", state.Name.ValueString(), state.what(), defaultDelete, req.Private, &resp.Diagnostics)
}

func (r *managedClusterSetResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	names := importedNames(ctx, req, &resp.Diagnostics, "name")
	if resp.Diagnostics.HasError() {
		return
	}
	object := &clusterv1beta2.ManagedClusterSet{}
	if !r.existing(ctx, object, "", names[0], fmt.Sprintf("import cluster set %q", names[0]), &resp.Diagnostics) {
		return
	}
	owned := ownership.Of(object, fieldManager)
	state := managedClusterSetModel{
		Name:   types.StringValue(object.Name),
		Labels: importedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
	}
	if object.Spec.ClusterSelector.SelectorType == clusterv1beta2.LabelSelector {
		state.LabelSelector = labelSelectorModelOf(object.Spec.ClusterSelector.LabelSelector)
	}
	if len(object.Spec.ManagedNamespaces) > 0 {
		state.ManagedNamespaces = managedNamespaceNames(object)
	}
	keepClaim(ctx, resp.Private, ownership.Imported(object), &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, nameIdentity{state.Name})...)
}

// ModifyPlan warns of a set that exists already.
func (r *managedClusterSetResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.foresee(ctx, req, &resp.Diagnostics, func(diags *diag.Diagnostics) (owned, bool) {
		var plan managedClusterSetModel
		diags.Append(req.Plan.Get(ctx, &plan)...)
		return plan.owned(), !diags.HasError()
	})
}

// isHubSet reports whether the hub makes the set itself, and again when it is
// deleted.
func isHubSet(name string) bool { return name == cluster.DefaultSet || name == cluster.GlobalSet }

// release takes from one of the hub's own sets what the resource has set of it.
func (r *managedClusterSetResource) release(ctx context.Context, name, what string, was privateReader, diags *diag.Diagnostics) {
	client := r.hub.client(diags)
	if client == nil {
		return
	}
	bare := &clusterv1beta2.ManagedClusterSet{}
	bare.Name = name
	err := ownership.Release(ctx, client, bare, fieldManager, claimOf(ctx, was, diags))
	if err = left(client, what, err, diags); err != nil {
		addAPIError(diags, client, "release "+what, err)
	}
}

// owned is the set as an object of the hub. What is added to one of the hub's own
// sets is nobody's loss.
func (m *managedClusterSetModel) owned() owned {
	o := own(m.object(), m.what(), m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	if isHubSet(m.Name.ValueString()) {
		o.write.Harmless = ownership.Difference.Added
	}
	return o
}

func (m *managedClusterSetModel) what() string {
	return fmt.Sprintf("cluster set %q", m.Name.ValueString())
}

func (m *managedClusterSetModel) object() *clusterv1beta2.ManagedClusterSet {
	object := &clusterv1beta2.ManagedClusterSet{}
	object.Name = m.Name.ValueString()
	object.Labels = stringMap(m.Labels)
	object.Spec.ClusterSelector.SelectorType = clusterv1beta2.ExclusiveClusterSetLabel
	if m.LabelSelector != nil {
		object.Spec.ClusterSelector.SelectorType = clusterv1beta2.LabelSelector
		selector := m.LabelSelector.selector()
		object.Spec.ClusterSelector.LabelSelector = &selector
	}
	for _, namespace := range m.ManagedNamespaces {
		object.Spec.ManagedNamespaces = append(object.Spec.ManagedNamespaces, clusterv1beta2.ManagedNamespaceConfig{Name: namespace.ValueString()})
	}
	return object
}

func (m *managedClusterSetModel) observe(object *clusterv1beta2.ManagedClusterSet) {
	m.Labels = observedMap(m.Labels, object.Labels)
	switch {
	case object.Spec.ClusterSelector.SelectorType != clusterv1beta2.LabelSelector:
		m.LabelSelector = nil
	case m.LabelSelector == nil || !m.LabelSelector.matches(object.Spec.ClusterSelector.LabelSelector):
		m.LabelSelector = labelSelectorModelOf(object.Spec.ClusterSelector.LabelSelector)
	}
	if m.ManagedNamespaces == nil {
		return
	}
	// Namespaces are entries of their own: those that others added are theirs.
	live := managedNamespaceNames(object)
	m.ManagedNamespaces = slices.DeleteFunc(slices.Clone(m.ManagedNamespaces), func(name types.String) bool {
		return !slices.ContainsFunc(live, func(l types.String) bool { return l.Equal(name) })
	})
}

func managedNamespaceNames(object *clusterv1beta2.ManagedClusterSet) []types.String {
	names := []types.String{}
	for _, namespace := range object.Spec.ManagedNamespaces {
		names = append(names, types.StringValue(namespace.Name))
	}
	return names
}
