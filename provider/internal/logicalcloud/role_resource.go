package logicalcloud

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*roleResource)(nil)
	_ resource.ResourceWithImportState    = (*roleResource)(nil)
	_ resource.ResourceWithIdentity       = (*roleResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*roleResource)(nil)
	_ resource.ResourceWithMoveState      = (*roleResource)(nil)
	_ resource.ResourceWithValidateConfig = (*roleResource)(nil)
)

type roleResource struct{ crud.Resource }

type roleModel struct {
	Name                types.String `tfsdk:"name"`
	Labels              types.Map    `tfsdk:"labels"`
	Annotations         types.Map    `tfsdk:"annotations"`
	Rules               []ruleModel  `tfsdk:"rules"`
	ClusterScopeAllowed types.Bool   `tfsdk:"cluster_scope_allowed"`
	Adopt               types.Bool   `tfsdk:"adopt"`
	ForceConflicts      types.Bool   `tfsdk:"force_conflicts"`
}

// NewRole is muster_access_role.
func NewRole() resource.Resource { return &roleResource{} }

func (r *roleResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_access_role"
}

func (r *roleResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("name")
}

func (r *roleResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A role in the fleet administrator's catalogue: what the grants of logical clouds may name. " +
			"Who grants it needs the verb `bind` on it (`accessroles` in the API group `muster-fleet.io`) on the hub, and for the scope `Cluster` the verb `grant-cluster-scope`, too. " +
			"A change of its rules reaches every cluster of every cloud that grants it.",
		Attributes: map[string]schema.Attribute{
			"name": attribute.Identifying("Name of the role, by which grants refer to it. Changing it replaces the role.",
				attribute.ValidObjectName("access role name")),
			"labels":      attribute.Labels("Labels of the role.", nil),
			"annotations": attribute.Annotations("Annotations of the role."),
			"rules":       rulesAttribute("What the role allows, as the rules of a Kubernetes ClusterRole.", true, maxRules),
			"cluster_scope_allowed": schema.BoolAttribute{
				MarkdownDescription: "Whether grants may give the role in all of a cluster, and not in the cloud's namespace alone. Defaults to `false`.",
				Optional:            true, Computed: true, Default: booldefault.StaticBool(false),
			},
			"adopt":           attribute.AdoptAttribute(),
			"force_conflicts": attribute.ForceAttribute(),
		},
	}
}

// ValidateConfig refuses rules that no API server takes.
func (r *roleResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var list types.List
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("rules"), &list)...)
	checkRules(path.Root("rules"), list, false, &resp.Diagnostics)
}

// ModifyPlan asks the hub what would come of the change.
func (r *roleResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model roleModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(), !diags.HasError()
	})
}

func (r *roleResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan roleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.CreateObject(ctx, plan.owned(), resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *roleResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state roleModel
	object := &v1alpha1.AccessRole{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		return nil
	})
}

func (r *roleResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan roleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.UpdateObject(ctx, plan.owned(), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *roleResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state roleModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.Destroy(ctx, &v1alpha1.AccessRole{}, &state, attribute.DefaultDelete, req.Private, &resp.Diagnostics, nil)
}

func (r *roleResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &v1alpha1.AccessRole{}
	named := func(names []string) crud.Model { return &roleModel{Name: types.StringValue(names[0])} }
	r.ImportObject(ctx, req, resp, []string{"name"}, object, named, func() (crud.Model, error) { return importRole(object), nil })
}

// NewRoleListResource lists access roles.
func NewRoleListResource() list.ListResource {
	return listing.New(listing.Kind[*v1alpha1.AccessRole]{
		Type: "access_role", Plural: "access roles", Objects: &v1alpha1.AccessRoleList{}, Needs: hub.AccessNeeds,
		Adopt:    func(object *v1alpha1.AccessRole) (crud.Model, error) { return importRole(object), nil },
		Describe: func(object *v1alpha1.AccessRole) string { return listing.Count(len(object.Rules), "rule") },
	})
}

// What implements crud.Model.
func (m *roleModel) What() string { return fmt.Sprintf("access role %q", m.Name.ValueString()) }

// Key implements crud.Model.
func (m *roleModel) Key() (namespace, name string) { return "", m.Name.ValueString() }

// Identity implements crud.Model.
func (m *roleModel) Identity() any { return attribute.NameIdentity{Name: m.Name} }

func (m *roleModel) object() *v1alpha1.AccessRole {
	object := &v1alpha1.AccessRole{Rules: rules(m.Rules), ClusterScopeAllowed: m.ClusterScopeAllowed.ValueBool()}
	object.Name = m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	return object
}

// owned is the role as an object of the hub. That somebody allows it for all of a
// cluster contradicts a configuration that does not.
func (m *roleModel) owned() crud.Owned {
	o := crud.Own(m.object(), m.What(), m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Write.Unwanted = func(live kube.Object) [][]string {
		if role, ok := live.(*v1alpha1.AccessRole); ok && role.ClusterScopeAllowed && !m.ClusterScopeAllowed.ValueBool() {
			return [][]string{{"clusterScopeAllowed"}}
		}
		return nil
	}
	return o
}

func (m *roleModel) observe(object *v1alpha1.AccessRole) {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	m.Rules = ruleModels(object.Rules, m.Rules)
	m.ClusterScopeAllowed = types.BoolValue(object.ClusterScopeAllowed)
}

func importRole(object *v1alpha1.AccessRole) *roleModel {
	owned := ownership.Of(object, hub.FieldManager)
	return &roleModel{
		Name:                types.StringValue(object.Name),
		Labels:              attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
		Annotations:         attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, attribute.ImportableAnnotation),
		Rules:               ruleModels(object.Rules, nil),
		ClusterScopeAllowed: types.BoolValue(object.ClusterScopeAllowed),
	}
}

// MoveState implements resource.ResourceWithMoveState.
func (r *roleResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *v1alpha1.AccessRole) (crud.Model, error) { return importRole(object), nil })
}
