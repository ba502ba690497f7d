package clusterset

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
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

type managedClusterSetResource struct{ crud.Resource }

type managedClusterSetModel struct {
	Name              types.String                  `tfsdk:"name"`
	Labels            types.Map                     `tfsdk:"labels"`
	LabelSelector     *attribute.LabelSelectorModel `tfsdk:"label_selector"`
	ManagedNamespaces []types.String                `tfsdk:"managed_namespaces"`
	Adopt             types.Bool                    `tfsdk:"adopt"`
	ForceConflicts    types.Bool                    `tfsdk:"force_conflicts"`
}

// New is muster_managed_cluster_set.
func New() resource.Resource { return &managedClusterSetResource{} }

func (r *managedClusterSetResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_managed_cluster_set"
}

func (r *managedClusterSetResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("name")
}

func (r *managedClusterSetResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A set of managed clusters: the unit in which clusters are given to teams. A cluster joins the set by its `cluster_set`, or by its labels when the set has a `label_selector`. " +
			"A namespace's placements can select from the set once it is bound there with `muster_managed_cluster_set_binding`.\n\n" +
			"The hub creates the sets `default` and `global` itself and reverts changes of their membership. A resource for one of them adds its labels and namespaces (with `label_selector = {}` for `global`), needs no `adopt`, " +
			"and removes only these when it is destroyed: the set stays.",
		Attributes: map[string]schema.Attribute{
			"name": attribute.Identifying("Name of the set. Changing it replaces the set.",
				attribute.ValidName("cluster set name")),
			"labels": attribute.Labels("Labels of the set itself.", nil),
			"label_selector": attribute.LabelSelectorAttribute("Makes the clusters with these labels members, whatever other sets they are in. An empty one, `{}`, takes all clusters. " +
				"If omitted, the members are the clusters whose `cluster_set` names the set."),
			"managed_namespaces": schema.SetAttribute{
				MarkdownDescription: "Namespaces that the agent of every member creates in its cluster. They stay when the cluster leaves the set.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Set{setvalidator.ValueStringsAre(attribute.ValidName("namespace"))},
			},
			"adopt":           attribute.AdoptAttribute(),
			"force_conflicts": attribute.ForceAttribute(),
		},
	}
}

func (r *managedClusterSetResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan managedClusterSetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.CreateObject(ctx, plan.owned(), resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *managedClusterSetResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state managedClusterSetModel
	object := &clusterv1beta2.ManagedClusterSet{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		return nil
	})
}

func (r *managedClusterSetResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan managedClusterSetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.UpdateObject(ctx, plan.owned(), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *managedClusterSetResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state managedClusterSetModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if name := state.Name.ValueString(); isHubSet(name) {
		r.release(ctx, name, state.What(), req.Private, &resp.Diagnostics)
		return
	}
	r.Destroy(ctx, &clusterv1beta2.ManagedClusterSet{}, &state, attribute.DefaultDelete, req.Private, &resp.Diagnostics, nil)
}

func (r *managedClusterSetResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &clusterv1beta2.ManagedClusterSet{}
	named := func(names []string) crud.Model { return &managedClusterSetModel{Name: types.StringValue(names[0])} }
	r.ImportObject(ctx, req, resp, []string{"name"}, object, named, func() (crud.Model, error) { return importSet(object), nil })
}

// importSet takes over what the provider's field manager owns.
func importSet(object *clusterv1beta2.ManagedClusterSet) *managedClusterSetModel {
	owned := ownership.Of(object, hub.FieldManager)
	m := &managedClusterSetModel{
		Name:   types.StringValue(object.Name),
		Labels: attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
	}
	if object.Spec.ClusterSelector.SelectorType == clusterv1beta2.LabelSelector {
		m.LabelSelector = attribute.LabelSelectorModelOf(object.Spec.ClusterSelector.LabelSelector)
	}
	if len(object.Spec.ManagedNamespaces) > 0 {
		m.ManagedNamespaces = managedNamespaceNames(object)
	}
	return m
}

// ModifyPlan asks the hub what would come of the change.
func (r *managedClusterSetResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model managedClusterSetModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(), !diags.HasError()
	})
}

// isHubSet reports whether the hub makes the set itself, and again when it is
// deleted.
func isHubSet(name string) bool { return name == cluster.DefaultSet || name == cluster.GlobalSet }

// release takes from one of the hub's own sets what the resource has set of it.
func (r *managedClusterSetResource) release(ctx context.Context, name, what string, was crud.PrivateReader, diags *diag.Diagnostics) {
	client := r.Hub.Client(diags)
	if client == nil {
		return
	}
	bare := &clusterv1beta2.ManagedClusterSet{}
	bare.Name = name
	err := ownership.Release(ctx, client, bare, hub.FieldManager, crud.ClaimOf(ctx, was, diags))
	if err = crud.Left(client, what, err, diags); err != nil {
		hub.AddAPIError(diags, client, "release "+what, err)
	}
}

// owned is the set as an object of the hub. What is added to one of the hub's own
// sets is nobody's loss.
func (m *managedClusterSetModel) owned() crud.Owned {
	o := crud.Own(m.object(), m.What(), m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Write.Foreign = crud.ForeignAnnotations
	o.Places = map[string]string{"spec.clusterSelector": "label_selector"}
	if isHubSet(m.Name.ValueString()) {
		o.Write.Harmless = ownership.Difference.Added
	}
	return o
}

// What implements crud.Model.
func (m *managedClusterSetModel) What() string {
	return fmt.Sprintf("cluster set %q", m.Name.ValueString())
}

func (m *managedClusterSetModel) object() *clusterv1beta2.ManagedClusterSet {
	object := &clusterv1beta2.ManagedClusterSet{}
	object.Name = m.Name.ValueString()
	object.Labels = attribute.StringMap(m.Labels)
	object.Spec.ClusterSelector.SelectorType = clusterv1beta2.ExclusiveClusterSetLabel
	if m.LabelSelector != nil {
		object.Spec.ClusterSelector.SelectorType = clusterv1beta2.LabelSelector
		selector := m.LabelSelector.Selector()
		object.Spec.ClusterSelector.LabelSelector = &selector
	}
	for _, namespace := range m.ManagedNamespaces {
		object.Spec.ManagedNamespaces = append(object.Spec.ManagedNamespaces, clusterv1beta2.ManagedNamespaceConfig{Name: namespace.ValueString()})
	}
	return object
}

func (m *managedClusterSetModel) observe(object *clusterv1beta2.ManagedClusterSet) {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	switch {
	case object.Spec.ClusterSelector.SelectorType != clusterv1beta2.LabelSelector:
		m.LabelSelector = nil
	case m.LabelSelector == nil || !m.LabelSelector.Matches(object.Spec.ClusterSelector.LabelSelector):
		m.LabelSelector = attribute.LabelSelectorModelOf(object.Spec.ClusterSelector.LabelSelector)
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

// Key implements crud.Model.
func (m *managedClusterSetModel) Key() (namespace, name string) { return "", m.Name.ValueString() }

// Identity implements crud.Model.
func (m *managedClusterSetModel) Identity() any { return attribute.NameIdentity{Name: m.Name} }
