package managedcluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var (
	_ resource.ResourceWithConfigure   = (*managedClusterResource)(nil)
	_ resource.ResourceWithImportState = (*managedClusterResource)(nil)
	_ resource.ResourceWithIdentity    = (*managedClusterResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*managedClusterResource)(nil)
)

type managedClusterResource struct{ crud.Resource }

// New is muster_managed_cluster.
func New() resource.Resource { return &managedClusterResource{} }

func (r *managedClusterResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_managed_cluster"
}

func (r *managedClusterResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("name")
}

func (r *managedClusterResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The hub's record of one cluster of the fleet. Creating it gives no access yet: `muster_cluster_acceptance` accepts the cluster, " +
			"`muster_klusterlet` (or any OCM agent) registers it, and `muster_cluster_registration` waits until it has joined.\n\n" +
			"A record that an agent has created by registering is taken over: the values of the configuration are added, and replace the set `default` and the heartbeat interval that the hub filled in. " +
			"If one of these values was set differently, or another Terraform resource manages the record, that is an error unless `adopt` is set. " +
			"Only what the configuration sets is compared and repaired; other values, written by agents and the hub, are left alone.\n\n" +
			"Destroying it detaches the cluster: the hub deletes its works and add-ons, withdraws the agent's rights, and keeps the cluster's namespace.",
		Attributes: map[string]schema.Attribute{
			"name": attribute.Identifying("The cluster's name everywhere: in certificates, in labels, and as its namespace on the hub. A DNS label of at most 63 characters. Changing it replaces the cluster.",
				attribute.ValidClusterName()),
			"labels":      attribute.Labels("Labels, for placements and cluster sets to select on. Labels that others set are left alone.", reservedClusterLabel),
			"annotations": attribute.Annotations("Annotations. Those that others set are left alone."),
			"cluster_set": schema.StringAttribute{
				MarkdownDescription: "Name of the cluster set that the cluster belongs to. A plan warns of an existing cluster whose set does not exist. If omitted, the hub puts the cluster into the set `default`, and a later move is not reverted.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidName("cluster set name")},
			},
			"client_id": schema.StringAttribute{
				MarkdownDescription: "Client ID of the agent that is to join as this cluster: one that is started with `--client-id` and without a cluster name. Its bootstrap token has to be bound to the cluster, or to list the client ID in `client_ids`. No other cluster of the hub may have the same. Needs a muster hub.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidClientID()},
			},
			"lease_duration_seconds": schema.Int64Attribute{
				MarkdownDescription: "Interval of the agent's heartbeats in seconds. After five intervals without one, the hub sets the cluster's availability to unknown. The hub's default is 60.",
				Optional:            true,
				Validators:          []validator.Int64{int64validator.Between(1, 86400)},
			},
			"taints": taintsAttribute(),
			"client_configs": schema.ListNestedAttribute{
				MarkdownDescription: "Addresses of the cluster's own API server, for tools and people; the hub does not connect to them. If omitted, those that the agent reports are left alone.",
				Optional:            true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"url": schema.StringAttribute{
						MarkdownDescription: "URL of the API server; only `https` is allowed.",
						Required:            true,
						Validators:          []validator.String{attribute.ValidHTTPSURL()},
					},
					"ca_bundle": schema.StringAttribute{
						MarkdownDescription: "PEM certificates of the authorities that vouch for that server.",
						Optional:            true,
						Validators:          []validator.String{attribute.ValidPEM(), stringvalidator.LengthAtLeast(1)},
					},
				}},
			},
			"adopt":           attribute.AdoptAttribute(),
			"force_conflicts": attribute.ForceAttribute(),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{Delete: true, DeleteDescription: attribute.TimeoutText("detaching the cluster, its works included,", attribute.DefaultDelete)}),
		},
	}
}

func (r *managedClusterResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan managedClusterModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := plan.object()
	if !r.CreateObject(ctx, plan.owned(object), resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
	applyTaints(ctx, client, object, plan.Taints, nil, &resp.Diagnostics)
}

func (r *managedClusterResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state managedClusterModel
	object := &clusterv1.ManagedCluster{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		r.checkSet(ctx, &state, &resp.Diagnostics)
		return nil
	})
}

// checkSet warns of a cluster set that does not exist. Only a refresh knows: while the
// cluster is planned or created, the same apply may make the set, before or after.
func (r *managedClusterResource) checkSet(ctx context.Context, m *managedClusterModel, diags *diag.Diagnostics) {
	if set := m.ClusterSet.ValueString(); set != "" && r.Hub.LacksSet(ctx, set) {
		diags.AddAttributeWarning(path.Root("cluster_set"), "There is no such cluster set",
			fmt.Sprintf("%s is in the cluster set %q, which the hub does not have, so no namespace can be bound to it and no placement selects the cluster by it. "+
				"Correct cluster_set, or create the set. With a reference to the name of its muster_managed_cluster_set, Terraform creates the set first.",
				attribute.Capitalize(m.What()), set))
	}
}

func (r *managedClusterResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state managedClusterModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	client := r.Hub.Client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := plan.object()
	if !r.UpdateObject(ctx, plan.owned(object), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	applyTaints(ctx, client, object, plan.Taints, state.Taints, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		plan.Taints = state.Taints
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *managedClusterResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state managedClusterModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	name := state.Name.ValueString()
	object := &clusterv1.ManagedCluster{}
	r.Destroy(ctx, object, &state, timeout, req.Private, &resp.Diagnostics, func(client *kube.Client) (summary, detail string) {
		return fmt.Sprintf("Managed cluster %q is not detached yet", name),
			fmt.Sprintf("It was still on the hub %s after its deletion was asked for. %s", timeout, describeDetaching(ctx, client, object, name))
	})
}

func (r *managedClusterResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &clusterv1.ManagedCluster{}
	named := func(names []string) crud.Model { return &managedClusterModel{Name: types.StringValue(names[0])} }
	r.ImportObject(ctx, req, resp, []string{"name"}, object, named, func() (crud.Model, error) {
		state := importManagedCluster(object)
		return &state, nil
	})
}

// ModifyPlan asks the hub what would come of the change.
func (r *managedClusterResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.NoteCreation(ctx, req, &clusterv1.ManagedCluster{}, "name")
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model managedClusterModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(model.object()), !diags.HasError()
	})
}

// What implements crud.Model.
func (m *managedClusterModel) What() string {
	return fmt.Sprintf("managed cluster %q", m.Name.ValueString())
}

// owned is the record as an object of the hub. Of one that an agent has made,
// nobody loses what is added, nor what the hub has filled in.
func (m *managedClusterModel) owned(object *clusterv1.ManagedCluster) crud.Owned {
	o := crud.Own(object, m.What(), m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Places = map[string]string{
		cluster.ClusterSetLabel: "cluster_set", cluster.RefusedSetMembership: "cluster_set",
		"managedClusterClientConfigs": "client_configs", "client configs": "client_configs",
	}
	o.Write.Harmless = func(d ownership.Difference) bool {
		switch d.Path {
		case "metadata.labels[" + cluster.ClusterSetLabel + "]":
			return d.Added() || (d.There == cluster.DefaultSet && d.Here != nil)
		case "spec.leaseDurationSeconds":
			return d.Added() || (d.There == float64(cluster.DefaultLeaseDurationSeconds) && d.Here != nil)
		}
		return d.Added()
	}
	o.Write.Foreign = foreignField
	o.Write.Further = func(live kube.Object) []ownership.Difference {
		record, ok := live.(*clusterv1.ManagedCluster)
		if !ok || m.Taints == nil {
			return nil
		}
		return lostTaints(record.Spec.Taints, m.Taints)
	}
	return o
}

func reservedClusterLabel(key string) string {
	switch {
	case key == cluster.ClusterSetLabel:
		return "use the attribute cluster_set"
	case strings.HasPrefix(key, cluster.AddOnFeatureLabelPrefix):
		return "the hub sets it from the state of the cluster's add-ons"
	default:
		return ""
	}
}

// describeDetaching tells what a cluster's deletion waits for. It asks the hub
// within a few seconds, and does without an answer.
func describeDetaching(ctx context.Context, client *kube.Client, object *clusterv1.ManagedCluster, name string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text := "What it waits for:\n" + hub.DescribeDeletion(object, time.Now()) + "\n" + hub.DescribeConditions(object.Status.Conditions, time.Now())
	works := &workv1.ManifestWorkList{}
	if err := client.List(ctx, works, kube.ListOptions{Namespace: name}); err == nil && len(works.Items) > 0 {
		var names []string
		for _, w := range works.Items {
			names = append(names, w.Name)
		}
		text += fmt.Sprintf("\n\nManifest works that are left: %s.", strings.Join(names, ", "))
	}
	return text + fmt.Sprintf("\n\nThe agent has to run in the cluster to remove the works' objects there. Look at it with\n"+
		"  kubectl get manifestworks -n %s\nand apply again when it does. "+
		"If the cluster is gone for good, remove the finalizers of its works:\n"+
		"  kubectl patch manifestwork -n %s NAME --type=merge -p '{\"metadata\":{\"finalizers\":null}}'", name, name)
}

// Key implements crud.Model.
func (m *managedClusterModel) Key() (namespace, name string) { return "", m.Name.ValueString() }

// Identity implements crud.Model.
func (m *managedClusterModel) Identity() any { return attribute.NameIdentity{Name: m.Name} }
