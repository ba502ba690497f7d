package provider

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// versionAnnotation on the bootstrap Secret keeps bootstrap_kubeconfig_wo_version.
const versionAnnotation = "muster-fleet.io/bootstrap-kubeconfig-version"

// agent is the agent of one managed cluster, seen from outside.
type agent struct {
	client  *kube.Client
	name    string
	options klusterlet.Options
	version types.Int64
}

// agent prepares the connection to the managed cluster. budget is how long the
// cluster may be away.
func (r *klusterletResource) agent(m *klusterletModel, budget time.Duration, diags *diag.Diagnostics) *agent {
	if m.Connection == nil {
		return nil
	}
	name, version := m.ClusterName.ValueString(), ""
	if r.hub != nil {
		version = r.hub.version
	}
	client, err := newClient(m.Connection.connection(), version, budget)
	if err != nil {
		diags.AddError(fmt.Sprintf("The connection to cluster %q is not configured properly", name),
			fmt.Sprintf("%s.\n\nCorrect the attribute cluster_connection.", capitalize(err.Error())))
		return nil
	}
	return &agent{
		client:  client,
		name:    name,
		version: m.BootstrapKubeconfigNumber,
		options: klusterlet.Options{
			ClusterName: name,
			Namespace:   m.Namespace.ValueString(),
			Image:       m.Image.ValueString(),
			Args:        stringList(m.Args),
		},
	}
}

// objects are what makes up the agent, in the order to apply them. Without a
// bootstrap kubeconfig its Secret is left out.
func (a *agent) objects(bootstrap []byte) []kube.Object {
	options := a.options
	options.BootstrapKubeconfig = bootstrap
	var objects []kube.Object
	for _, object := range klusterlet.Render(options) {
		if secret, ok := object.(*corev1.Secret); ok && !a.version.IsNull() {
			secret.Annotations = map[string]string{versionAnnotation: strconv.FormatInt(a.version.ValueInt64(), 10)}
		}
		objects = append(objects, object)
	}
	return objects
}

func (a *agent) apply(ctx context.Context, object kube.Object, diags *diag.Diagnostics) bool {
	kind, name := object.GetObjectKind().GroupVersionKind().Kind, object.GetName()
	if err := a.client.Apply(ctx, object, kube.ApplyOptions{Manager: fieldManager, Force: true}); err != nil {
		addAPIError(diags, a.client, fmt.Sprintf("install %s %s in cluster %q", kind, name, a.name), err)
		return false
	}
	return true
}

// sighting is what of an agent is in its cluster.
type sighting struct {
	// any object of the agent's own namespace exists, or the namespace itself.
	any bool
	// complete says that every object exists and the Deployment is as it should be.
	complete bool
	// bootstrap says that the Secret with the bootstrap kubeconfig exists.
	bootstrap bool
	// number is the bootstrap kubeconfig's, if it is on record.
	number     types.Int64
	deployment *appsv1.Deployment
}

// look reads all of the agent's objects.
func (a *agent) look(ctx context.Context) (sighting, error) {
	seen := sighting{complete: true, number: types.Int64Null()}
	placeholder := []byte("any: it is only looked for")
	for _, wanted := range a.objects(placeholder) {
		live := wanted.DeepCopyObject().(kube.Object)
		name := wanted.GetName()
		err := a.client.Get(ctx, live, wanted.GetNamespace(), name)
		secret, isSecret := live.(*corev1.Secret)
		if kube.IsNotFound(err, name) {
			if !isSecret || !a.version.IsNull() {
				seen.complete = false
			}
			continue
		}
		if err != nil {
			return seen, err
		}
		if isSecret {
			seen.bootstrap = true
			if number, err := strconv.ParseInt(secret.Annotations[versionAnnotation], 10, 64); err == nil {
				seen.number = types.Int64Value(number)
			}
		}
		if wanted.GetNamespace() != "" || name == a.options.Namespace {
			seen.any = true
		}
		if deployment, ok := live.(*appsv1.Deployment); ok {
			seen.deployment = deployment
			seen.complete = seen.complete && sameDeployment(wanted.(*appsv1.Deployment), deployment)
		}
	}
	return seen, nil
}

// sameDeployment compares what decides how the agent runs.
func sameDeployment(wanted, live *appsv1.Deployment) bool {
	if live.Spec.Replicas == nil || wanted.Spec.Replicas == nil || *live.Spec.Replicas != *wanted.Spec.Replicas ||
		len(live.Spec.Template.Spec.Containers) != len(wanted.Spec.Template.Spec.Containers) {
		return false
	}
	for i, w := range wanted.Spec.Template.Spec.Containers {
		l := live.Spec.Template.Spec.Containers[i]
		if l.Name != w.Name || l.Image != w.Image || !slices.Equal(l.Command, w.Command) || !slices.Equal(l.Args, w.Args) {
			return false
		}
	}
	return true
}

// waitForBootstrap waits until the agent has stored its certificate.
func (a *agent) waitForBootstrap(ctx context.Context, timeout time.Duration, diags *diag.Diagnostics) {
	secret := &corev1.Secret{}
	err := a.client.Wait(ctx, secret, a.options.Namespace, cluster.HubKubeconfigSecret, func(exists bool) (bool, error) {
		return exists && len(secret.Data[cluster.TLSCertKey]) > 0 && len(secret.Data[cluster.KubeconfigKey]) > 0, nil
	})
	switch {
	case err == nil:
	case isTimeout(err):
		diags.AddError(fmt.Sprintf("The agent in cluster %q has no certificate from the hub", a.name),
			fmt.Sprintf("The agent is installed, but within %s it did not get a certificate. %s\n\n"+
				"Either the cluster is not accepted (muster_cluster_acceptance, which must not depend on this resource), or the agent can't reach the hub at the server in its bootstrap kubeconfig. Next:\n"+
				"  kubectl -n %s logs deployment/%s    # in the managed cluster\n  kubectl get csr -l %s=%s    # on the hub\n"+
				"To install without waiting, set wait_for_bootstrap = false.",
				timeout, a.describeDeployment(), a.options.Namespace, klusterlet.Name, cluster.NameLabel, a.name))
	default:
		addAPIError(diags, a.client, fmt.Sprintf("wait for the certificate of the agent in cluster %q", a.name), err)
	}
}

// describeDeployment tells whether the agent runs, if the cluster says so soon.
func (a *agent) describeDeployment() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	deployment := &appsv1.Deployment{}
	if err := a.client.Get(ctx, deployment, a.options.Namespace, klusterlet.Name); err != nil {
		return fmt.Sprintf("Its Deployment can't be read: %s.", err)
	}
	lines := []string{fmt.Sprintf("Of its Deployment, %d of %d pods are ready.", deployment.Status.ReadyReplicas, deployment.Status.Replicas)}
	for _, c := range deployment.Status.Conditions {
		lines = append(lines, fmt.Sprintf("  %s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return joinLines(lines)
}

// hubHash identifies the agent's hub in the names of applied works. ok is false
// when the agent has no kubeconfig of any hub.
func (a *agent) hubHash(ctx context.Context) (hash string, ok bool, err error) {
	for _, name := range []string{cluster.HubKubeconfigSecret, cluster.BootstrapSecret} {
		secret := &corev1.Secret{}
		if err := a.client.Get(ctx, secret, a.options.Namespace, name); kube.IsNotFound(err, name) {
			continue
		} else if err != nil {
			return "", false, err
		}
		if server, ok := serverOf(secret.Data[cluster.KubeconfigKey]); ok {
			return work.HubHash(server), true, nil
		}
	}
	return "", false, nil
}

// serverOf is the server of a kubeconfig's current context.
func serverOf(kubeconfig []byte) (string, bool) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return "", false
	}
	current, ok := config.Contexts[config.CurrentContext]
	if !ok || config.Clusters[current.Cluster] == nil {
		return "", false
	}
	return config.Clusters[current.Cluster].Server, true
}

// waitForWorks waits until nothing of the agent's hub is applied any more. It
// reports whether the agent may go.
func (a *agent) waitForWorks(ctx context.Context, timeout time.Duration, diags *diag.Diagnostics) bool {
	doing := fmt.Sprintf("wait until the hub's works are gone from cluster %q", a.name)
	hash, ok, err := a.hubHash(ctx)
	if err != nil {
		addAPIError(diags, a.client, doing, err)
		a.suggestForgetting(diags)
		return false
	}
	if !ok {
		return true
	}
	works := &workv1.AppliedManifestWorkList{}
	left := func() []string {
		var names []string
		for _, w := range works.Items {
			if w.Spec.HubHash == hash {
				names = append(names, fmt.Sprintf("  %s, with %d objects in the cluster", w.Spec.ManifestWorkName, len(w.Status.AppliedResources)))
			}
		}
		return names
	}
	err = a.client.WaitList(ctx, works, &workv1.AppliedManifestWork{}, kube.ListOptions{}, func() (bool, error) { return len(left()) == 0, nil })
	switch {
	case err == nil, kube.IsKindNotServed(err):
		return true
	case isTimeout(err):
		diags.AddError(fmt.Sprintf("Works of the hub are left in cluster %q", a.name),
			fmt.Sprintf("The agent was not removed, because after %s these works were still applied in the cluster and only it can remove them:\n%s\n\n"+
				"Delete them on the hub and apply again. Next:\n  kubectl get manifestworks -n %s    # on the hub\n"+
				"To leave what they applied in the cluster, set keep_works_on_destroy = true and apply before destroying.",
				timeout, joinLines(left()), a.name))
	default:
		addAPIError(diags, a.client, doing, err)
		a.suggestForgetting(diags)
	}
	return false
}

func (a *agent) suggestForgetting(diags *diag.Diagnostics) {
	diags.AddWarning(fmt.Sprintf("If cluster %q is gone for good", a.name),
		"There is nothing left to remove then. Take this resource out of the state with terraform state rm, and apply again.")
}

// remove deletes the agent, its Deployment first and its namespace last.
func (a *agent) remove(ctx context.Context, timeout time.Duration, diags *diag.Diagnostics) {
	objects := a.objects([]byte("any: it is only deleted"))
	slices.Reverse(objects)
	for _, object := range objects {
		kind, name := object.GetObjectKind().GroupVersionKind().Kind, object.GetName()
		doing := fmt.Sprintf("remove %s %s from cluster %q", kind, name, a.name)
		err := a.client.DeleteAndWait(ctx, object, object.GetNamespace(), name)
		if isTimeout(err) {
			diags.AddError("Cannot "+doing, fmt.Sprintf("It was still there after %s.\n%s\n\nNext, in the managed cluster:\n  kubectl describe %s %s",
				timeout, describeDeletion(object, time.Now())+describeNamespace(object), strings.ToLower(kind), name))
			return
		}
		if err != nil {
			addAPIError(diags, a.client, doing, err)
			return
		}
	}
}

// describeNamespace tells what keeps a namespace, if object is one.
func describeNamespace(object kube.Object) string {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return ""
	}
	text := ""
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			text += fmt.Sprintf("\n  %s: %s", c.Type, c.Message)
		}
	}
	return text
}

// observe brings the state up to date.
func (m *klusterletModel) observe(seen sighting) {
	m.Installed = types.BoolValue(seen.complete)
	if !m.BootstrapKubeconfigNumber.IsNull() && seen.bootstrap && !seen.number.IsNull() {
		m.BootstrapKubeconfigNumber = seen.number
	}
}

// adopt fills the state in from what is there.
func (m *klusterletModel) adopt(seen sighting) {
	m.BootstrapKubeconfigNumber = seen.number
	containers := seen.deployment.Spec.Template.Spec.Containers
	if len(containers) > 0 && containers[0].Image != klusterlet.DefaultImage() {
		m.Image = types.StringValue(containers[0].Image)
	}
	if len(containers) > 0 {
		standard := klusterlet.Render(klusterlet.Options{ClusterName: m.ClusterName.ValueString(), Namespace: m.Namespace.ValueString()})
		for _, object := range standard {
			deployment, ok := object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			own := deployment.Spec.Template.Spec.Containers[0].Args
			if live := containers[0].Args; len(live) > len(own) && slices.Equal(live[:len(own)], own) {
				m.Args = stringListValue(live[len(own):])
			}
		}
	}
	m.Installed = types.BoolValue(true)
}

// parseKlusterletID takes [NAMESPACE/]CLUSTER_NAME@KUBECONFIG_PATH[#CONTEXT]
// apart.
func parseKlusterletID(text string, diags *diag.Diagnostics) klusterletIdentity {
	name, location, found := strings.Cut(text, "@")
	namespace, rest, namespaced := strings.Cut(name, "/")
	if namespaced {
		name = rest
	}
	kubeconfig, context, _ := strings.Cut(location, "#")
	if !found || name == "" || kubeconfig == "" || (namespaced && namespace == "") {
		diags.AddError("Invalid import ID",
			fmt.Sprintf("%q does not say which agent and where: the ID has the form CLUSTER_NAME@KUBECONFIG_PATH, such as c1@~/.kube/c1.yaml, with #CONTEXT behind it and NAMESPACE/ before it if need be.", text))
		return klusterletIdentity{}
	}
	id := klusterletIdentity{ClusterName: types.StringValue(name), KubeconfigPath: types.StringValue(kubeconfig), Context: optionalString(context)}
	if namespaced {
		id.Namespace = types.StringValue(namespace)
	}
	return id
}

// kubeconfigValidator admits kubeconfigs with a current context. It never
// repeats the value.
type kubeconfigValidator struct{}

func (kubeconfigValidator) Description(context.Context) string {
	return "a kubeconfig with a current context"
}

func (v kubeconfigValidator) MarkdownDescription(ctx context.Context) string {
	return v.Description(ctx)
}

func (kubeconfigValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if server, ok := serverOf([]byte(req.ConfigValue.ValueString())); !ok || server == "" {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid kubeconfig",
			"The value is not a kubeconfig whose current context names a server. Use the attribute kubeconfig of the ephemeral resource muster_bootstrap_kubeconfig.")
	}
}
