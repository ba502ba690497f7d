package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// When an import is what a wait waits for.

type waitModel struct {
	Joined    types.Bool `tfsdk:"joined"`
	Available types.Bool `tfsdk:"available"`
}

func waitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Waits, after creating or changing the import, until the hub reports what is set here. It ends early when the hub refuses the kubeconfig. " +
			"A wait that fails makes an update fail. After a creation it only warns and leaves `ready` false, and the next apply waits again; to make the run fail there, too, add a `postcondition` on `self.ready`.",
		Optional:   true,
		Validators: []validator.Object{waitValidator{"joined = true or available = true"}},
		Attributes: map[string]schema.Attribute{
			"joined": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait until the agent is installed as configured and runs, and the cluster has joined. The cluster has to be accepted: by `accept`, or by a resource that does not depend on this one.",
				Optional:            true,
			},
			"available": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait, after that, until the managed cluster is available.",
				Optional:            true,
			},
		},
	}
}

// waitValidator refuses a wait for nothing.
type waitValidator struct{ attribute.Described }

func (waitValidator) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	for _, value := range req.ConfigValue.Attributes() {
		if asksFor(value) {
			return
		}
	}
	resp.Diagnostics.AddAttributeError(req.Path, "Nothing to wait for",
		attribute.Place(path.Root("wait"))+" names nothing that it waits for: set joined = true or available = true, or remove it.")
}

func asksFor(value attr.Value) bool {
	flag, ok := value.(types.Bool)
	return ok && (flag.IsUnknown() || flag.ValueBool())
}

// lacks lists what is not as the wait wants it, each in words. version is that of the
// Secret that was handed in; empty where none was.
func (m *waitModel) lacks(object *v1alpha1.ClusterImport, version string) []string {
	if version != "" && object.Status.KubeconfigVersion != version {
		return []string{"the kubeconfig: the hub has not dealt with it yet"}
	}
	var lacks []string
	for _, condition := range []string{muster.ConditionAgentInstalled, muster.ConditionJoined} {
		c := meta.FindStatusCondition(object.Status.Conditions, condition)
		switch {
		case c == nil:
			lacks = append(lacks, condition+": the hub has not reported it")
		case c.ObservedGeneration < object.Generation:
			lacks = append(lacks, condition+": the hub has not dealt with the last change")
		case c.Status != metav1.ConditionTrue:
			lacks = append(lacks, fmt.Sprintf("%s: %s: %s", condition, c.Reason, c.Message))
		}
	}
	if needsKubeconfig(object) || object.Status.Redeployed < object.Spec.Redeploy {
		lacks = append(lacks, "the kubeconfig: the hub needs it, and has none")
	}
	return lacks
}

// errFailed ends a wait that can't be met any more.
var errFailed = errors.New("the hub has refused it")

// until waits, and says what is wrong if the wait was not met.
func (m *waitModel) until(ctx context.Context, client *kube.Client, object *v1alpha1.ClusterImport, version string, timeout time.Duration) (summary, problem string) {
	summary = fmt.Sprintf("Not ready: cluster import %q", object.Name)
	err := client.Wait(ctx, object, "", object.Name, func(exists bool) (bool, error) {
		switch {
		case !exists:
			return false, fmt.Errorf("it was deleted meanwhile")
		case version != "" && object.Status.KubeconfigVersion != version:
			return false, nil
		case failed(object) != "":
			return false, errFailed
		}
		return len(m.lacks(object, version)) == 0, nil
	})
	switch {
	case errors.Is(err, errFailed):
		return summary, failed(object)
	case hub.IsTimeout(err):
		return summary, m.describe(object, version, timeout)
	case err != nil:
		return summary, hub.Explain(client.Host(), "wait for it", err)
	case !m.Available.ValueBool():
		return "", ""
	}
	return availableUntil(ctx, client, object.Name, timeout)
}

// availableUntil waits until a cluster that has joined is available.
func availableUntil(ctx context.Context, client *kube.Client, name string, timeout time.Duration) (summary, problem string) {
	mc := &clusterv1.ManagedCluster{}
	err := client.Wait(ctx, mc, "", name, func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("the managed cluster was deleted meanwhile")
		}
		return meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable), nil
	})
	summary = fmt.Sprintf("Not available: managed cluster %q", name)
	switch {
	case err == nil:
		return "", ""
	case hub.IsTimeout(err):
		return summary, attribute.JoinLines([]string{
			fmt.Sprintf("The cluster has joined, and was not available within %s. Its conditions:", attribute.ShortDuration(timeout)),
			hub.DescribeConditions(mc.Status.Conditions, time.Now()), "", "Next:", "  muster status " + name,
		})
	}
	return summary, hub.Explain(client.Host(), "wait for it", err)
}

// describe tells why an import is not what was waited for.
func (m *waitModel) describe(object *v1alpha1.ClusterImport, version string, timeout time.Duration) string {
	lines := []string{fmt.Sprintf("Within %s these were not met:", attribute.ShortDuration(timeout))}
	for _, lack := range m.lacks(object, version) {
		lines = append(lines, "  "+lack)
	}
	lines = append(lines, "The hub reports:", hub.DescribeConditions(object.Status.Conditions, time.Now()))
	return attribute.JoinLines(append(lines, "", "Next:", "  kubectl describe clusterimport "+object.Name))
}

// reportWritten takes over what is known right after the import was written: what the
// hub says of a kubeconfig is from before.
func (m *importModel) reportWritten(object *v1alpha1.ClusterImport) {
	m.report(object)
	m.KubeconfigNeeded = types.BoolValue(false)
}

// follow is what comes after the import was written. version is that of the Secret
// that was handed in; ok is whether that went well.
func (r *importResource) follow(waiting context.Context, plan *importModel, object *v1alpha1.ClusterImport, version string, timeout time.Duration, ok bool) crud.Follow {
	waits := ok && plan.Wait != nil && plan.Ready.IsUnknown()
	f := crud.Follow{
		Waits: plan.Wait != nil, Ready: &plan.Ready, Kind: "cluster import", Report: func() { plan.report(object) },
	}
	var diags diag.Diagnostics
	client := r.Hub.Client(&diags)
	switch {
	case client == nil:
	case plan.Wait == nil && version != "":
		f.Report = func() {} // noticed does, of what is up to date
		f.Wait = func() (summary, problem string) {
			plan.noticed(waiting, client, object, version)
			return "", ""
		}
	case waits:
		f.Wait = func() (summary, problem string) { return plan.Wait.until(waiting, client, object, version, timeout) }
	}
	return f
}

// noticeTimeout is how long an apply without a wait gives the hub to notice a kubeconfig.
const noticeTimeout = 5 * time.Second

// noticed waits for a moment until the hub has dealt with the kubeconfig that was handed
// in, and takes over what it says. Otherwise the next plan could still read that the
// hub needs one. A hub that takes longer, as with a cluster that does not answer, is not
// waited for.
func (m *importModel) noticed(waiting context.Context, client *kube.Client, object *v1alpha1.ClusterImport, version string) {
	ctx, cancel := context.WithTimeout(waiting, noticeTimeout)
	defer cancel()
	err := client.Wait(ctx, object, "", object.Name, func(exists bool) (bool, error) {
		return !exists || object.Status.KubeconfigVersion == version, nil
	})
	if err == nil && object.Status.KubeconfigVersion == version {
		m.report(object)
	}
}
