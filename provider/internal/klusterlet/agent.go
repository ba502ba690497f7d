package klusterlet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// agent is the agent of one managed cluster, seen from outside.
type agent struct {
	model
	client   *kube.Client
	name     string
	options  klusterlet.Options
	patience patience
}

// agent prepares the connection to the managed cluster. budget is how long the
// cluster may be away.
func (r *klusterletResource) agent(m model, budget time.Duration, diags *diag.Diagnostics) *agent {
	to := m.connection()
	if to == nil {
		return nil
	}
	name, version := m.Text("cluster_name"), ""
	if r.Hub != nil {
		version = r.Hub.Version
	}
	client, err := hub.NewClient(to.Connection(), version, budget)
	if err != nil {
		diags.AddError(fmt.Sprintf("The connection to cluster %q is not configured properly", name),
			fmt.Sprintf("%s.\n\nCorrect the attribute cluster_connection.", attribute.Capitalize(err.Error())))
		return nil
	}
	options := klusterlet.Options{
		ClusterName: name, AgentOptions: AgentOptionsOf(m.Values), InstalledBy: muster.InstalledByTerraform,
	}
	options.Namespace = m.Text("namespace")
	return &agent{model: m, client: client, name: name, options: options, patience: r.patience}
}

// objects are the agent's objects, in the order to apply them. Without a bootstrap
// kubeconfig its Secret is not among them.
func (a *agent) objects(bootstrap []byte) []kube.Object {
	options := a.options
	options.BootstrapKubeconfig = bootstrap
	return a.marked(klusterlet.Render(options))
}

// allObjects are the objects that the agent may have in the cluster, to find or
// delete them.
func (a *agent) allObjects() []kube.Object { return a.marked(klusterlet.Objects(a.options)) }

// marked puts the number of the bootstrap kubeconfig on its Secret.
func (a *agent) marked(rendered []klusterlet.Object) []kube.Object {
	objects := make([]kube.Object, 0, len(rendered))
	for _, object := range rendered {
		if secret, ok := object.(*corev1.Secret); ok {
			secret.Annotations = a.annotations()
		}
		objects = append(objects, object)
	}
	return objects
}

// apply writes an object. What can't be changed in one, such as a binding's role, takes a
// new object.
func (a *agent) apply(ctx context.Context, object kube.Object) error {
	again := object.DeepCopyObject().(kube.Object)
	options := kube.ApplyOptions{Manager: hub.FieldManager, Force: true}
	err := a.client.Apply(ctx, object, options)
	if !apierrors.IsInvalid(err) ||
		!slices.Contains([]string{"RoleBinding", "ClusterRoleBinding", "Deployment"}, kindOf(object)) {
		return err
	}
	if err := a.client.DeleteAndWait(ctx, kube.Fresh(object), again.GetNamespace(), again.GetName()); err != nil {
		return err
	}
	return a.client.Apply(ctx, again, options)
}

// restoreAttempts is how often an object is replaced that somebody else, such as its
// controller, changes at the same time.
const restoreAttempts = 5

// restore replaces an object to which something was added with what it is to be. An apply
// leaves alone what others have added.
func (a *agent) restore(ctx context.Context, wanted kube.Object, diags *diag.Diagnostics) error {
	for attempt := 1; ; attempt++ {
		live := kube.Fresh(wanted)
		if err := a.client.Get(ctx, live, wanted.GetNamespace(), wanted.GetName()); err != nil {
			if kube.IsNotFound(err, wanted.GetName()) {
				return nil
			}
			return err
		}
		restored, removed, err := klusterlet.Restored(wanted, live)
		if err != nil || len(removed) == 0 {
			return err
		}
		err = a.client.Update(ctx, restored, hub.FieldManager)
		if apierrors.IsConflict(err) && attempt < restoreAttempts {
			continue
		}
		if err == nil {
			a.warnOfReturned(wanted, restored, diags)
		}
		return err
	}
}

// warnOfReturned warns of additions that come back with their removal.
func (a *agent) warnOfReturned(wanted, updated kube.Object, diags *diag.Diagnostics) {
	if again := additions(wanted, updated); len(again) > 0 {
		diags.AddWarning(fmt.Sprintf("Additions to the agent in cluster %q come back", a.name),
			fmt.Sprintf("They were removed from %s, and the cluster's admission has added them again at once:\n%s\n\n"+
				"The next plan shows them, too. If a webhook adds them, exempt the namespace %s from it.",
				nameOf(wanted), indented(again), a.options.Namespace))
	}
}

// currentContext are the cluster and the user of a kubeconfig's current context; empty
// where there are none.
func currentContext(kubeconfig []byte) (to clientcmdapi.Cluster, by clientcmdapi.AuthInfo) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return to, by
	}
	current := config.Contexts[config.CurrentContext]
	if found := config.Clusters[current.Cluster]; found != nil {
		to = *found
	}
	if found := config.AuthInfos[current.AuthInfo]; found != nil {
		by = *found
	}
	return to, by
}

// endpointOf is where a kubeconfig's current context leads; empty where it leads nowhere.
func endpointOf(kubeconfig []byte) registration.Endpoint {
	to, _ := currentContext(kubeconfig)
	return registration.Endpoint{Server: to.Server, CA: to.CertificateAuthorityData}
}

// validKubeconfig admits kubeconfigs with a current context. It never repeats the value.
func validKubeconfig() validator.String {
	return attribute.ValidText("a kubeconfig with a current context",
		func(_ path.Path, text string) (summary, detail string) {
			if endpointOf([]byte(text)).Server != "" {
				return "", ""
			}
			return "Invalid kubeconfig", "The value is not a kubeconfig whose current context names a server. Use " +
				"the attribute kubeconfig of the ephemeral resource muster_bootstrap_kubeconfig, or leave it out, " +
				"and the provider makes one."
		})
}
