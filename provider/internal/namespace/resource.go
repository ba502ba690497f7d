package namespace

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

var (
	_ resource.ResourceWithConfigure   = (*namespaceResource)(nil)
	_ resource.ResourceWithImportState = (*namespaceResource)(nil)
	_ resource.ResourceWithIdentity    = (*namespaceResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*namespaceResource)(nil)
)

type namespaceResource struct{ crud.Resource }

type namespaceModel struct {
	Name           types.String   `tfsdk:"name"`
	Labels         types.Map      `tfsdk:"labels"`
	Annotations    types.Map      `tfsdk:"annotations"`
	ForceDestroy   types.Bool     `tfsdk:"force_destroy"`
	Adopt          types.Bool     `tfsdk:"adopt"`
	ForceConflicts types.Bool     `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

// New is muster_namespace.
func New() resource.Resource { return &namespaceResource{} }

func (r *namespaceResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_namespace"
}

func (r *namespaceResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("name")
}

func (r *namespaceResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A namespace on the hub, for cluster set bindings, placements and manifest work replica sets. Refer to its " +
			"`name` in these resources, so that Terraform creates it before them and destroys it after them.\n\n" +
			"The namespaces of managed clusters, of Kubernetes and of the hub itself can't be managed with it: a managed cluster's namespace " +
			"comes with `muster_managed_cluster`.\n\n" +
			"An existing namespace that was made without Terraform is an error unless `adopt` is set or it is imported, even if its labels " +
			"are as configured, because destroying the namespace deletes what is in it. " +
			"For a namespace in a managed cluster, use `muster_manifest_work`, or `managed_namespaces` of `muster_managed_cluster_set`.",
		Attributes: map[string]schema.Attribute{
			"name": attribute.Identifying("Name of the namespace: a DNS label of at most 63 characters. Changing it replaces the namespace, "+
				"with all that is in it.",
				attribute.ValidName("namespace"), notReserved()),
			"labels":      attribute.Labels("Labels. Those that others set, such as `"+corev1.LabelMetadataName+"`, are left alone.", reservedLabel),
			"annotations": attribute.Annotations("Annotations. Those that others set are left alone."),
			"force_destroy": schema.BoolAttribute{
				MarkdownDescription: "Whether destroying the namespace may delete the placements, cluster set bindings, replica sets, works and " +
					"scores that are still in it. If omitted or `false`, these are an error that lists them. " +
					"The value that counts is the one of the last apply.",
				Optional: true,
			},
			"adopt":           attribute.AdoptAttribute(),
			"force_conflicts": attribute.ForceAttribute(),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{Delete: true, DeleteDescription: attribute.TimeoutText("deleting the namespace "+
				"with what is in it", attribute.DefaultDelete)}),
		},
	}
}

func (r *namespaceResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan namespaceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.isFree(ctx, &plan, &resp.Diagnostics) ||
		!r.CreateObject(ctx, plan.owned(nil), resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *namespaceResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state namespaceModel
	object := &corev1.Namespace{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.Labels = attribute.ObservedMap(state.Labels, object.Labels)
		state.Annotations = attribute.ObservedMap(state.Annotations, object.Annotations)
		if object.DeletionTimestamp != nil {
			resp.Diagnostics.AddWarning("Being deleted: "+state.What(), "Somebody has asked for the deletion of the namespace, so nothing "+
				"can be created in it any more. Apply again when it is gone, and Terraform creates it again.\n"+
				describeNamespace(object))
		}
		return nil
	})
}

func (r *namespaceResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan namespaceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.UpdateObject(ctx, plan.owned(nil), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *namespaceResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state namespaceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.mayGo(ctx, &state, req.Private, &resp.Diagnostics) {
		return
	}
	object := &corev1.Namespace{}
	r.Destroy(ctx, object, &state, timeout, req.Private, &resp.Diagnostics, func(client *kube.Client) (summary, detail string) {
		return fmt.Sprintf("Namespace %q is not gone yet", object.Name),
			fmt.Sprintf("It was still on the hub %s after its deletion was asked for. What it waits for:\n%s",
				timeout, describeHeld(ctx, client, object))
	})
}

func (r *namespaceResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &corev1.Namespace{}
	named := func(names []string) crud.Model { return &namespaceModel{Name: types.StringValue(names[0])} }
	r.ImportObject(ctx, req, resp, []string{"name"}, object, named, func() (crud.Model, error) {
		if err := refused(object); err != nil {
			return nil, err
		}
		return importNamespace(object), nil
	})
}

// importNamespace takes over what the provider's field manager owns; of a namespace
// that the provider has not made, what people may have set.
func importNamespace(object *corev1.Namespace) *namespaceModel {
	owned := ownership.Of(object, hub.FieldManager)
	return &namespaceModel{
		Name: types.StringValue(object.Name),
		Labels: attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels,
			func(key string) bool { return reservedLabel(key) == "" }),
		Annotations: attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations,
			func(key string) bool {
				return attribute.ImportableAnnotation(key)
			}),
		Timeouts: attribute.NullTimeouts("delete"),
	}
}

// ModifyPlan tells of a namespace that exists already, and refuses one that is a
// managed cluster's.
func (r *namespaceResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var refusal error
	told := &resource.ModifyPlanResponse{Plan: resp.Plan}
	r.DryRun(ctx, req, told, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model namespaceModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(func(live *corev1.Namespace) { refusal = refused(live) }), !diags.HasError()
	})
	if refusal != nil {
		addRefusal(&resp.Diagnostics, refusal)
		return
	}
	resp.Diagnostics.Append(told.Diagnostics...)
}

// isFree refuses to take over a namespace that is a managed cluster's.
func (r *namespaceResource) isFree(ctx context.Context, m *namespaceModel, diags *diag.Diagnostics) bool {
	live := &corev1.Namespace{}
	found, ok := r.Find(ctx, live, "", m.Name.ValueString(), "create "+m.What(), diags)
	if !ok || !found {
		return ok
	}
	if err := refused(live); err != nil {
		addRefusal(diags, err)
		return false
	}
	return true
}

func addRefusal(diags *diag.Diagnostics, err error) {
	diags.AddAttributeError(path.Root("name"), "Not a namespace for muster_namespace", attribute.Capitalize(err.Error())+".")
}

// owned is the namespace as an object of the hub. One that nobody has marked is
// somebody's: deleting it later would delete what they have in it. seen, which may
// be nil, gets the one that exists.
func (m *namespaceModel) owned(seen func(live *corev1.Namespace)) crud.Owned {
	object := &corev1.Namespace{}
	object.Name = m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	o := crud.Own(object, m.What(), object.Name, m.Adopt, m.ForceConflicts)
	o.Write.Further = func(live kube.Object) []ownership.Difference {
		namespace, ok := live.(*corev1.Namespace)
		if ok && seen != nil {
			seen(namespace)
		}
		if !ok || ownership.Mark(live) != "" {
			return nil
		}
		return []ownership.Difference{{Path: "what others have in it", There: true}}
	}
	return o
}

// What implements crud.Model.
func (m *namespaceModel) What() string { return fmt.Sprintf("namespace %q", m.Name.ValueString()) }

// Key implements crud.Model.
func (m *namespaceModel) Key() (namespace, name string) { return "", m.Name.ValueString() }

// Identity implements crud.Model.
func (m *namespaceModel) Identity() any { return attribute.NameIdentity{Name: m.Name} }

// reservedLabel tells why a label can't be set by configurations.
func reservedLabel(key string) string {
	switch key {
	case corev1.LabelMetadataName:
		return "Kubernetes sets it to the namespace's name"
	case cluster.NameLabel:
		return "it hands the namespace over to a managed cluster's agent"
	}
	return ""
}
