// Package clusterimport has the resource and the data source muster_cluster_import: a
// cluster in which the hub installs the agent, through a kubeconfig that Terraform
// hands in and keeps nowhere.
package clusterimport

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

type (
	clusterImport = *v1alpha1.ClusterImport
	change        = crud.Change[clusterImport]
)

// Import is muster_cluster_import.
func Import() crud.Declared {
	return &crud.Kind[clusterImport]{
		Type: "cluster_import", Noun: "cluster import", Empty: &v1alpha1.ClusterImport{},
		Description: "Has the hub install the agent in a cluster, through a kubeconfig that it forgets when the " +
			"cluster has joined. It is for clusters that Terraform can't reach and the hub can; otherwise " +
			"`muster_klusterlet` installs the agent, and the hub never sees a kubeconfig. A cluster has one of the " +
			"two.\n\n" +
			"Options, the hub's address, and `redeploy` roll the agent when they change: the cluster keeps its " +
			"identity and does not register again.\n\n" +
			"Destroying it leaves the agent in the cluster, and the managed cluster on the hub. It revokes the " +
			"bootstrap token and deletes the kubeconfig. To let the cluster go, and remove the agent from it: " +
			"`muster detach CLUSTER --cluster-kubeconfig FILE`.\n\n" +
			"A cluster that has joined never joins again because of an import alone: see `rejoin`, " +
			"`cluster_authority`, and the guide [Clusters that the hub installs](../guides/cluster-imports.md).\n\n" +
			"Needs a muster hub with the feature gate `ClusterImport`, which is off by default: `muster hub " +
			"--feature-gates ClusterImport=true`.",
		Keys: []crud.Key{{
			Name: "name",
			Description: "Name of the import, and of the managed cluster that it is for. Changing it replaces " +
				"the import.",
			DataDescription: "Name of the import, and of its managed cluster.",
			Valid:           attribute.ValidClusterName(),
		}},
		Table: table(),
		Waits: &crud.Waits{Again: []string{"kubeconfig_wo_version"}},
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,", Update: "changing, with `wait`,", Delete: "deleting",
		},
		Places: map[string]string{
			"cannot use the Secret":      "kubeconfig_secret",
			cluster.RefusedSetMembership: "cluster_set",
			cluster.RefusedAcceptance:    "accept",
		},
		Hooks: crud.Hooks[clusterImport]{
			Validate: validate, KeepWording: nameSecret, Plan: plan, Follow: follow, Reading: observe,
			AfterDelete: forget,
		},
		List: &crud.List[clusterImport]{
			Plural: "cluster imports", Objects: &v1alpha1.ClusterImportList{}, Needs: hub.ImportNeeds,
			Cluster: func(object clusterImport) string { return object.Name },
			Describe: func(object clusterImport) string {
				if current(object, muster.ConditionJoined, metav1.ConditionTrue) {
					return "joined"
				}
				return "not joined"
			},
		},
		Data: &crud.Data[clusterImport]{
			Description: "A cluster in which the hub installs the agent: how far it is, and what it waits for. The " +
				"kubeconfig can't be read.",
			Table: attribute.Table[clusterImport]{attribute.ReportedConditions(
				"Conditions of the import: `KubeconfigUsable`, `AgentInstalled`, `Joined` and `Drifted`.",
				func(i clusterImport) []metav1.Condition { return i.Status.Conditions })},
			Others: "kubectl get clusterimports",
		},
	}
}

// observe brings what the table knows nothing of up to date.
func observe(_ context.Context, c *change) {
	values, live := c.Prior, c.Object
	if !values.IsSet("publish_server") { // a state from before
		values["publish_server"] = types.BoolValue(live.Spec.PublishServer)
	}
	crud.StayReady(values, func() bool { return len(lacks(live, "")) == 0 && !values.Object("wait").Bool("available") })
}

// forget deletes the kubeconfig that was handed in. An import that is still there is
// another resource's by now, and needs it.
func forget(ctx context.Context, c *change) {
	name := c.Keys[0]
	if c.Prior.IsSet("kubeconfig_wo_version") &&
		kube.IsNotFound(c.Client.Get(ctx, &v1alpha1.ClusterImport{}, "", name), name) {
		withdraw(ctx, c)
	}
}

// What is checked and decided of an import while planning.

// validate refuses options that no agent can have, and a trust that needs no
// certificates beside certificates.
func validate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	values := attribute.ValuesOf(ctx, config, diags)
	klusterlet.CheckAgentOptions(values.Object("agent"), path.Root("agent"), diags)
	endpoint := values.Object("endpoint")
	if endpoint.Text("trust") == string(v1alpha1.TrustSystem) && endpoint.Text("cluster_ca_certificate") != "" {
		at := path.Root("endpoint").AtName("cluster_ca_certificate")
		diags.AddAttributeError(at, "Certificates that are not used",
			attribute.Place(at)+" is set, and endpoint.trust is \"System\", with which the agent verifies the hub "+
				"by the authorities of its image alone. Remove one of them.")
	}
}

// local are the attributes that are not written to the hub.
func local() []string { return append(table().Unwritten(), "adopt", "force_conflicts", "timeouts") }

// handsIn reports whether an update hands the kubeconfig in: for a change of what is
// installed or of how the cluster joins, for a new number, and where the hub needs it.
func handsIn(changes attribute.Changes, needed bool) bool {
	return needed || changes.In("kubeconfig_wo_version") || changes.Beyond(append(local(), "labels", "annotations")...)
}

// plan checks a kubeconfig that is handed in, and plans as open what the hub will say of
// one that it needs. It returns whether to ask the hub what would come of the change.
func plan(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() {
		warnWhatStays(ctx, req, resp)
		return false
	}
	creates := req.State.Raw.IsNull()
	if creates {
		nameSecret(ctx, req, resp)
	}
	state := attribute.ValuesOf(ctx, req.State, &resp.Diagnostics)
	var content types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("kubeconfig_wo"), &content)...)
	if resp.Diagnostics.HasError() {
		return false
	}
	if creates || handsIn(attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw), false) {
		checkKubeconfig(content, &resp.Diagnostics)
	}
	if state.Bool("kubeconfig_needed") && !content.IsNull() {
		crud.PlanUnknown(resp, statusTable().Unwritten()...)
		var wait types.Object
		resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("wait"), &wait)...)
		if !wait.IsNull() {
			crud.PlanUnknown(resp, "ready")
		}
	}
	return !lacksKind(ctx, r, req, resp)
}

// checkKubeconfig refuses a kubeconfig that is about to be handed in and that a hub would
// refuse. It never repeats the content. One that is not handed in is not looked at: a
// destroy, before which Terraform plans as usual, needs none.
func checkKubeconfig(content types.String, diags *diag.Diagnostics) {
	if content.IsNull() || content.IsUnknown() {
		return
	}
	if why := problemsOfKubeconfig(content.ValueString()); why != "" {
		diags.AddAttributeError(path.Root("kubeconfig_wo"), "Invalid kubeconfig", "kubeconfig_wo: "+why)
	}
}

// nameSecret plans the Secret's name where the configuration leaves it out.
func nameSecret(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var secret, name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("kubeconfig_secret"), &secret)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	if secret.IsNull() && !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("kubeconfig_secret"), name)...)
	}
}

// lacksKind refuses to create an import on a hub that has none. Where the hub can't be
// asked, the apply fails.
func lacksKind(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	client := r.Hub.PlanClient()
	if !req.State.Raw.IsNull() || client == nil || r.Hub.HasWritten() {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	if has, err := r.Hub.Has(asking, client, hubinfo.ClusterImport); err != nil {
		r.Hub.DidNotAnswer(err)
		return false
	} else if has {
		return false
	}
	var name types.String
	if req.Plan.GetAttribute(ctx, path.Root("name"), &name).HasError() || name.IsUnknown() {
		name = types.StringValue("any")
	}
	err := client.Get(asking, &v1alpha1.ClusterImport{}, "", name.ValueString())
	if !kube.IsKindNotServed(err) {
		return false
	}
	resp.Diagnostics.AddError("The hub imports no clusters", fmt.Sprintf("The hub %s does not serve the kind "+
		"ClusterImport. %s\n\n"+
		"Where Terraform can reach the cluster itself, muster_klusterlet installs the agent, with "+
		"every hub.", client.Host(), hub.ImportNeeds))
	return true
}

// warnWhatStays warns that destroying an import does not make the cluster leave.
func warnWhatStays(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var name, uid types.String
	if req.State.Raw.IsNull() || req.State.GetAttribute(ctx, path.Root("name"), &name).HasError() ||
		req.State.GetAttribute(ctx, path.Root("installed_cluster_uid"), &uid).HasError() || uid.ValueString() == "" {
		return
	}
	resp.Diagnostics.AddWarning(fmt.Sprintf("The agent stays in the cluster: cluster import %q", name.ValueString()),
		fmt.Sprintf("The hub no longer changes the agent of %q, and deletes the kubeconfig if it has one. "+
			"The agent and the managed cluster stay, and go on. To let the cluster go, and remove the agent from it: "+
			"muster detach %[1]s --cluster-kubeconfig FILE.", name.ValueString()))
}

// problemsOfKubeconfig says why a hub would refuse a kubeconfig; empty when it might
// not. Nothing of the kubeconfig but its server's host is in the text.
func problemsOfKubeconfig(content string) string {
	c, err := kubeconfig.Contain([]byte(content))
	if err != nil {
		return fmt.Sprintf("The hub uses the kubeconfig in place of its owner, and so takes no kubeconfig that "+
			"needs anything beside itself: %s.", err)
	}
	hosts := []string{c.Server.Hostname()}
	if c.Proxy != nil {
		hosts = append(hosts, c.Proxy.Hostname())
	}
	for _, host := range hosts {
		// Only the hub knows whether it may connect to its own machine.
		if why := kubeconfig.RefusedHost(host, nil, true); why != "" {
			return fmt.Sprintf("The hub does not connect to %s: %s. Give an address of the cluster.", host, why)
		}
	}
	return ""
}

// handIn puts a kubeconfig where the hub finds it, and returns the version of the
// Secret. A Secret that somebody else has put there stays as it is.
func handIn(ctx context.Context, c *change, content string) (version string, ok bool) {
	if why := problemsOfKubeconfig(content); why != "" {
		c.Diagnostics.AddAttributeError(path.Root("kubeconfig_wo"), "Invalid kubeconfig", why)
		return "", false
	}
	var err error
	for range attempts { // The hub may forget the one from before meanwhile.
		if version, err = putSecret(ctx, c, content); !apierrors.IsConflict(err) {
			break
		}
	}
	var foreign *foreignError
	switch {
	case errors.As(err, &foreign):
		c.Diagnostics.AddAttributeError(path.Root("kubeconfig_secret"), "Exists already: Secret "+foreign.where,
			fmt.Sprintf("The hub %s has the Secret already, and this resource has not handed it in. It was not "+
				"changed. To use it as it is, remove kubeconfig_wo and kubeconfig_wo_version. To overwrite it, set "+
				"adopt = true. To leave it to its owner, set kubeconfig_secret to another name.", c.Client.Host()))
	case err != nil:
		hub.AddAPIError(c.Diagnostics, c.Client, "hand in the kubeconfig of "+c.What, err)
	}
	return version, err == nil
}

// attempts is how often a Secret is written that changes at the same time.
const attempts = 3

// foreignError says that a Secret is somebody else's.
type foreignError struct{ where string }

func (e *foreignError) Error() string { return "the Secret " + e.where + " is somebody else's" }

func putSecret(ctx context.Context, c *change, content string) (version string, err error) {
	name, of := c.Plan.Text("kubeconfig_secret"), c.Keys[0]
	live := &corev1.Secret{}
	options := kube.ApplyOptions{Manager: hub.FieldManager, Force: true}
	switch err := c.Client.Get(ctx, live, muster.ImportNamespace, name); {
	case kube.IsNotFound(err, name):
		options.CreateOnly = true
	case err != nil:
		return "", err
	case !handedInFor(live, of) && !c.Plan.Bool("adopt"):
		return "", &foreignError{muster.ImportNamespace + "/" + name}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: muster.ImportNamespace, Name: name, ResourceVersion: live.ResourceVersion,
			Annotations: map[string]string{muster.HandedInForAnnotation: of},
		},
		Data: map[string][]byte{"kubeconfig": []byte(content)},
	}
	err = c.Client.Apply(ctx, secret, options)
	return secret.ResourceVersion, err
}

// handedInFor reports whether a Secret is Terraform's, for the import of this name.
func handedInFor(secret *corev1.Secret, name string) bool {
	return secret.Annotations[muster.HandedInForAnnotation] == name && !crud.FieldsOf(secret, hub.FieldManager).None()
}

// withdraw deletes the kubeconfig of the state, where the hub has not forgotten it.
func withdraw(ctx context.Context, c *change) {
	name := c.Prior.Text("kubeconfig_secret")
	live := &corev1.Secret{}
	err := c.Client.Get(ctx, live, muster.ImportNamespace, name)
	if err == nil && handedInFor(live, c.Keys[0]) {
		_, err = c.Client.DeleteIf(ctx, &corev1.Secret{}, muster.ImportNamespace, name,
			metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
	}
	if err != nil && !kube.IsNotFound(err, name) && !apierrors.IsConflict(err) {
		hub.AddAPIError(c.Diagnostics, c.Client, "delete the kubeconfig of "+c.What, err)
	}
}
