package logicalcloud

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// When a cloud is what a wait waits for.

type waitModel struct {
	Ready      types.Bool     `tfsdk:"ready"`
	MinReady   types.Int64    `tfsdk:"min_ready"`
	Conditions []types.String `tfsdk:"conditions"`
}

func waitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Waits, after creating or changing the cloud, until the hub reports everything that is set here. " +
			"A wait that fails makes an update fail. After a creation it only warns and leaves `ready` false, because an error would make Terraform destroy and re-create the cloud, and so withdraw everybody's access; " +
			"the next apply waits again. To make the run fail there, too, use `muster_logical_cloud_wait`, or a `postcondition` on `self.ready`.",
		Optional:   true,
		Validators: []validator.Object{waitValidator{"at least one of ready = true, min_ready and conditions"}},
		Attributes: waitAttributes(),
	}
}

// waitAttributes are what there is to wait for.
func waitAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"ready": schema.BoolAttribute{
			MarkdownDescription: "Whether to wait until placements select clusters and all of them have the cloud's objects, as they are in the configuration. It is the condition `Ready`.",
			Optional:            true,
		},
		"min_ready": schema.Int64Attribute{
			MarkdownDescription: "Waits until at least this many clusters are ready, so that one that is offline does not hold up the run.",
			Optional:            true,
			Validators:          []validator.Int64{int64validator.AtLeast(1)},
		},
		"conditions": schema.SetAttribute{
			MarkdownDescription: "Conditions of the cloud to wait for, each as its type, which then has to be true, or as `type=status`: `Selected`, `Applied` and `Ready`.",
			Optional:            true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidWaitCondition())},
		},
	}
}

// waitValidator refuses a wait for nothing.
type waitValidator struct{ attribute.Described }

func (waitValidator) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() {
		checkWait(req.Path, req.ConfigValue.Attributes(), &resp.Diagnostics)
	}
}

// checkWait refuses a wait for nothing, given its attributes.
func checkWait(at path.Path, attributes map[string]attr.Value, diags *diag.Diagnostics) {
	for _, name := range []string{"ready", "min_ready", "conditions"} {
		switch value := attributes[name].(type) {
		case types.Bool:
			if value.IsUnknown() || value.ValueBool() {
				return
			}
		default:
			if value != nil && !value.IsNull() {
				return
			}
		}
	}
	diags.AddAttributeError(at, "Nothing to wait for", "The wait names nothing that it waits for: set ready = true, min_ready or conditions, or remove it.")
}

// wanted are the conditions to wait for, in the order of their types.
func (m *waitModel) wanted() []attribute.WaitCondition {
	wanted := attribute.WaitConditions(m.Conditions)
	ready := attribute.WaitCondition{Type: muster.ConditionReady, Status: metav1.ConditionTrue}
	if m.Ready.ValueBool() && !slices.Contains(wanted, ready) {
		wanted = append(wanted, ready)
	}
	return wanted
}

// lacks lists what is not as the wait wants it, each in words.
func (m *waitModel) lacks(object *v1alpha1.LogicalCloud) []string {
	var lacks []string
	for _, wanted := range m.wanted() {
		c := meta.FindStatusCondition(object.Status.Conditions, wanted.Type)
		switch {
		case c == nil:
			lacks = append(lacks, wanted.String()+": the hub has not reported it")
		case c.ObservedGeneration < object.Generation:
			lacks = append(lacks, fmt.Sprintf("%s: it is reported for generation %d, so the hub has not seen the last change", wanted, c.ObservedGeneration))
		case c.Status != wanted.Status:
			lacks = append(lacks, fmt.Sprintf("%s: it is %s (%s)", wanted, c.Status, c.Reason))
		}
	}
	least, ready := m.MinReady.ValueInt64(), int64(object.Status.Clusters.Ready)
	if least > 0 && (ready < least || !reported(object)) {
		lacks = append(lacks, fmt.Sprintf("min_ready: %d of %d clusters are ready", ready, least))
	}
	return lacks
}

// reported tells whether the hub has dealt with the cloud as it is now.
func reported(object *v1alpha1.LogicalCloud) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, muster.ConditionReady)
	return c != nil && c.ObservedGeneration >= object.Generation
}

// until waits, and says what is wrong if the wait was not met.
func (m *waitModel) until(ctx context.Context, client *kube.Client, object *v1alpha1.LogicalCloud, timeout time.Duration) (summary, problem string) {
	err := client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("it was deleted meanwhile, or never existed")
		}
		return len(m.lacks(object)) == 0, nil
	})
	summary = fmt.Sprintf("Not ready: logical cloud %q", object.Namespace+"/"+object.Name)
	switch {
	case err == nil:
		return "", ""
	case hub.IsTimeout(err):
		return summary, m.describe(object, timeout, time.Now())
	default:
		return summary, hub.Explain(client.Host(), "wait for it", err)
	}
}

// describe tells why a cloud is not what was waited for.
func (m *waitModel) describe(object *v1alpha1.LogicalCloud, timeout time.Duration, now time.Time) string {
	lines := []string{fmt.Sprintf("Within %s generation %d did not reach what is waited for:", attribute.ShortDuration(timeout), object.Generation)}
	for _, lack := range m.lacks(object) {
		lines = append(lines, "  "+lack)
	}
	c := object.Status.Clusters
	lines = append(lines, fmt.Sprintf("Clusters: %d selected, %d ready, %d failed. Conditions:", c.Selected, c.Ready, c.Failed),
		hub.DescribeConditions(object.Status.Conditions, now))
	for _, f := range c.Failing {
		lines = append(lines, fmt.Sprintf("  cluster %s: %s: %s", f.Name, f.Reason, f.Message))
	}
	if c.Selected == 0 {
		lines = append(lines, "", "No placement selects a cluster for it. The placements have to be in the cloud's namespace, and a cluster set has to be bound there: "+
			"kubectl get placements -n "+object.Namespace)
	}
	return attribute.JoinLines(append(lines, "", "Next:", fmt.Sprintf("  kubectl describe logicalcloud -n %s %s", object.Namespace, object.Name)))
}

// describeDeletion tells what keeps a cloud that should be gone.
func describeDeletion(object *v1alpha1.LogicalCloud, timeout time.Duration, now time.Time) string {
	lines := []string{
		fmt.Sprintf("The logical cloud was still there %s after its deletion was asked for.", attribute.ShortDuration(timeout)),
		hub.DescribeDeletion(object, now),
	}
	if c := meta.FindStatusCondition(object.Status.Conditions, muster.ConditionDeleting); c != nil {
		lines = append(lines, "  The hub says: "+c.Message)
	}
	return attribute.JoinLines(append(lines, "", "The rights are withdrawn where the agents are connected. Apply again when the others are back. "+
		"A cluster that is lost for good has to leave the fleet first: muster detach CLUSTER --force."))
}

// follow is what comes after the cloud was written.
func (r *cloudResource) follow(waiting context.Context, plan *cloudModel, object *v1alpha1.LogicalCloud, timeout time.Duration) crud.Follow {
	f := crud.Follow{
		Waits: plan.Wait != nil, Ready: &plan.Ready, Kind: "logical cloud", Failing: "muster_logical_cloud_wait",
		Report: func() { plan.report(object) },
	}
	var diags diag.Diagnostics
	if client := r.Hub.Client(&diags); client != nil && plan.Wait != nil && plan.Ready.IsUnknown() {
		f.Wait = func() (summary, problem string) { return plan.Wait.until(waiting, client, object, timeout) }
	}
	return f
}
