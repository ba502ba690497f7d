package klusterlet

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// ModifyPlan refuses a connection that now leads to another cluster, and keeps
// what an update will not change from being unknown.
func (r *klusterletResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		r.warnOfWorks(ctx, req, &resp.Diagnostics)
		return
	}
	creates, state := req.State.Raw.IsNull(), modelOf(ctx, req.State, &resp.Diagnostics)
	plan, config := modelOf(ctx, req.Plan, &resp.Diagnostics), modelOf(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if creates && config.ownsKubeconfig() && !config.IsSet("bootstrap_kubeconfig_wo") {
		needsKubeconfig(config.Text("cluster_name"), &resp.Diagnostics)
		return
	}
	var ready, uid, joined attr.Value = types.BoolUnknown(), types.StringUnknown(), types.BoolUnknown()
	if config.IsSet("cluster_uid") {
		uid = config.Values["cluster_uid"]
	}
	if !creates && !r.moved(ctx, req, plan, state, config, &resp.Diagnostics) && !plan.touchesCluster(state) {
		ready = state.Values["ready"]
		if !config.IsSet("cluster_uid") {
			uid = state.Values["cluster_uid"]
		}
	}
	if plan.Values["wait_for_bootstrap"].Equal(types.BoolValue(false)) {
		ready = types.BoolNull()
	}
	plan.Values["ready"], plan.Values["cluster_uid"] = ready, uid
	attempt := creates || state.failed() || ready.IsUnknown() || uid.IsUnknown() || plan.touchesCluster(state)
	if !attempt {
		joined = state.Values["joined"]
	}
	plan.Values["joined"] = joined
	if attempt && (plan.continues() || plan.Values["on_failure"].IsUnknown()) {
		plan.Values["offline"], plan.Values["installed"] = types.BoolUnknown(), types.BoolUnknown()
		plan.Values["problems"] = types.ListUnknown(types.StringType)
	} else {
		plan.Values["offline"] = types.BoolValue(false)
		plan.Values["problems"] = attribute.StringListValue([]string{})
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, plan.object())...)
}

// warnOfWorks names the works for which the removal of the agent will wait, and which
// neither a Terraform resource nor the hub is going to delete.
func (r *klusterletResource) warnOfWorks(ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics) {
	client, state := r.Hub.PlanClient(), modelOf(ctx, req.State, diags)
	if client == nil || r.Hub.HasWritten() || state.Bool("keep_works_on_destroy") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	name, works := state.Text("cluster_name"), &workv1.ManifestWorkList{}
	if err := client.List(ctx, works, kube.ListOptions{Namespace: name}); err != nil {
		r.Hub.DidNotAnswer(err)
		return
	}
	if left := foreignWorks(works.Items); len(left) > 0 {
		diags.AddWarning(fmt.Sprintf("Works will hold up the removal of the agent from cluster %q", name),
			fmt.Sprintf("The hub has works for the cluster that neither a Terraform resource nor a controller of the "+
				"hub keeps, so destroying the agent does not delete them:\n%s\n\n"+
				"The agent is removed only when what they applied is gone. Delete them first: kubectl delete "+
				"manifestworks -n %s NAME\n%s", attribute.JoinLines(left), name, keepWorksAdvice))
	}
}

// foreignWorks are those that somebody has made by hand and nobody deletes.
func foreignWorks(works []workv1.ManifestWork) []string {
	var names []string
	for i := range works {
		w := &works[i]
		made := w.Labels[work.ReplicaSetLabel] + w.Labels[muster.LogicalCloudLabel] + w.Labels[cluster.AddOnNameLabel]
		if w.DeletionTimestamp == nil && made+crud.OwnerMark(w) == "" && len(w.OwnerReferences) == 0 {
			names = append(names, "  "+w.Name)
		}
	}
	return attribute.Sorted(names)
}

// moved reports whether the planned connection has another address than the one
// by which the agent was installed, and refuses one that leads to another
// cluster. A cluster that is away is asked again when the plan is carried out.
func (r *klusterletResource) moved(
	ctx context.Context, req resource.ModifyPlanRequest, plan, state, config model, diags *diag.Diagnostics,
) bool {
	was := placeIn(ctx, req.Private, diags)
	if !attribute.Known(plan.Values["cluster_connection"]) || was.UID == "" {
		return false
	}
	var ignored diag.Diagnostics
	agent := r.agent(plan, refreshBudget, &ignored)
	if agent == nil || agent.client.Host() == was.Host {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, hub.ReadBudget)
	defer cancel()
	found, err := agent.place(ctx)
	if err != nil {
		return differ(plan.Values, state.Values, "cluster_connection")
	}
	checkPlace(agent.name, was, found, config, diags)
	return found.UID != was.UID
}

// place is which cluster an agent is in, and where that cluster was reached. A
// cluster that was rebuilt has another UID at its old address; one at another
// address with another UID counts as another cluster.
type place struct {
	Host string `json:"host"`
	UID  string `json:"uid"`
}

// privatePlace is the key of the place in a resource's private state.
const privatePlace = "place"

// placeIn reads the place that is kept with a resource; empty when there is none.
func placeIn(ctx context.Context, private crud.PrivateReader, diags *diag.Diagnostics) place {
	var p place
	raw, problems := private.GetKey(ctx, privatePlace)
	diags.Append(problems...)
	if raw != nil {
		_ = json.Unmarshal(raw, &p) // what can't be read is as if it were not there
	}
	return p
}

// keep stores the place with a resource.
func (p place) keep(ctx context.Context, private crud.PrivateWriter, diags *diag.Diagnostics) {
	raw, err := json.Marshal(p)
	if err == nil {
		diags.Append(private.SetKey(ctx, privatePlace, raw)...)
	}
}

// other reports whether found is another cluster than p, and not p after it was
// rebuilt.
func (p place) other(found place) bool {
	return p.UID != "" && found.UID != p.UID && found.Host != p.Host
}

// place asks the cluster that the connection leads to who it is.
func (a *agent) place(ctx context.Context) (place, error) {
	namespace := &corev1.Namespace{}
	if err := a.client.Get(ctx, namespace, "", metav1.NamespaceSystem); err != nil {
		return place{}, fmt.Errorf("telling which cluster it is by its namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return place{Host: a.client.Host(), UID: string(namespace.UID)}, nil
}

// checkPlace refuses a connection that leads to another cluster than it should.
// was is where the agent was.
func checkPlace(name string, was, found place, config model, diags *diag.Diagnostics) bool {
	wanted := config.Text("cluster_uid")
	switch {
	case wanted != "" && wanted != found.UID:
		diags.AddAttributeError(path.Root("cluster_uid"), fmt.Sprintf("cluster_connection does not lead to the "+
			"cluster of cluster_uid, for %q", name),
			fmt.Sprintf("cluster_uid is %q, and the cluster at %s is %q by the UID of its namespace kube-system. "+
				"Correct cluster_connection; or, if that is the cluster which has the name %q from now on, set "+
				"cluster_uid to its UID.", wanted, found.Host, found.UID, name))
		return false
	case !config.IsSet("cluster_uid") && was.other(found):
		diags.AddAttributeError(path.Root("cluster_connection"), fmt.Sprintf("cluster_connection of %q leads to "+
			"another cluster", name),
			fmt.Sprintf("The agent of %q was installed in the cluster at %s, whose namespace kube-system has the UID "+
				"%q. The connection now leads to %s, which has %q. Two clusters can't share a name: the hub serves "+
				"one agent for each name. To add that cluster, give it a name and a resource of its own. If it "+
				"replaces the other one, for example after a rebuild at another address, set cluster_uid = %q: the "+
				"agent then joins from there, and the hub stops serving the previous "+
				"one.", name, was.Host, was.UID, found.Host, found.UID, found.UID))
		return false
	}
	return true
}
