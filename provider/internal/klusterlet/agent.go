package klusterlet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/connection"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// agent is the agent of one managed cluster, seen from outside.
type agent struct {
	client  *kube.Client
	name    string
	options klusterlet.Options
	// annotations are those of the Secret with the bootstrap kubeconfig.
	annotations map[string]string
	// keepsBootstrap says that this Secret is the provider's to keep, and takesForeign
	// that one of somebody else is as good.
	keepsBootstrap, takesForeign bool
	// own says that the configuration brings the bootstrap kubeconfig.
	own      bool
	patience patience
}

// agent prepares the connection to the managed cluster. budget is how long the
// cluster may be away.
func (r *klusterletResource) agent(m *klusterletModel, budget time.Duration, diags *diag.Diagnostics) *agent {
	to := connection.Of(m.Connection)
	if to == nil {
		return nil
	}
	name, version := m.ClusterName.ValueString(), ""
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
		ClusterName: name, AgentOptions: m.Options(), InstalledBy: muster.InstalledByTerraform,
	}
	options.Namespace = m.Namespace.ValueString()
	return &agent{
		client:         client,
		name:           name,
		annotations:    m.annotations(),
		keepsBootstrap: m.ownsKubeconfig() || m.makesKubeconfig(),
		takesForeign:   !m.insists(),
		own:            m.ownsKubeconfig(),
		options:        options,
		patience:       r.patience,
	}
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
			secret.Annotations = a.annotations
		}
		objects = append(objects, object)
	}
	return objects
}

func (a *agent) Apply(ctx context.Context, object kube.Object, diags *diag.Diagnostics) bool {
	kind, name := object.GetObjectKind().GroupVersionKind().Kind, object.GetName()
	again := object.DeepCopyObject().(kube.Object)
	err := a.client.Apply(ctx, object, kube.ApplyOptions{Manager: hub.FieldManager, Force: true})
	if apierrors.IsInvalid(err) && slices.Contains([]string{"RoleBinding", "ClusterRoleBinding", "Deployment"}, kind) {
		// What can't be changed, such as a binding's role, takes a new object.
		if err = a.client.DeleteAndWait(ctx, kube.Fresh(object), object.GetNamespace(), name); err == nil {
			err = a.client.Apply(ctx, again, kube.ApplyOptions{Manager: hub.FieldManager, Force: true})
		}
	}
	if err != nil {
		hub.AddAPIError(diags, a.client, fmt.Sprintf("install %s %s in cluster %q", kind, name, a.name), err)
		return false
	}
	return true
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
			fmt.Sprintf("They were removed from %s %s, and the cluster's admission has added them again at "+
				"once:\n%s\n\n"+
				"The next plan shows them, too. If a webhook adds them, exempt the namespace %s from it.",
				kindOf(wanted), wanted.GetName(), attribute.JoinLines(indented(again)), a.options.Namespace))
	}
}

// endpointOf is where a kubeconfig's current context leads.
func endpointOf(kubeconfig []byte) (registration.Endpoint, bool) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return registration.Endpoint{}, false
	}
	current, ok := config.Contexts[config.CurrentContext]
	if !ok || config.Clusters[current.Cluster] == nil {
		return registration.Endpoint{}, false
	}
	to := config.Clusters[current.Cluster]
	return registration.Endpoint{Server: to.Server, CA: to.CertificateAuthorityData}, true
}

// serverOf is the server of a kubeconfig's current context.
func serverOf(kubeconfig []byte) (string, bool) {
	to, ok := endpointOf(kubeconfig)
	return to.Server, ok
}

// observe brings the state up to date.
func (m *klusterletModel) observe(seen observation) {
	m.Installed = types.BoolValue(seen.complete())
	m.Ready, m.Joined = types.BoolNull(), types.BoolValue(seen.certified)
	if m.Offline.IsNull() { // in a state of a version without it
		m.Offline = types.BoolValue(false)
	}
	if m.WaitForBootstrap.ValueBool() {
		m.Ready = types.BoolValue(seen.ready())
	}
	if m.ownsKubeconfig() && seen.bootstrap && !seen.number.IsNull() {
		m.BootstrapKubeconfigNumber = seen.number
	}
	if m.Bootstrap != nil && !m.Bootstrap.Version.IsNull() && seen.bootstrap && !seen.version.IsNull() {
		m.Bootstrap.Version = seen.version
	}
}

// adopt fills the state in from what is there.
func (m *klusterletModel) adopt(seen observation) {
	m.BootstrapKubeconfigNumber = seen.number
	if !seen.version.IsNull() {
		m.Bootstrap = &registration.BootstrapModel{Version: seen.version}
	}
	m.OptionsModel = OptionsModelOf(klusterlet.OptionsOf(seen.deployment))
	m.Installed, m.Ready, m.Problems = types.BoolValue(true), types.BoolValue(seen.ready()), noProblems()
	m.Joined, m.Offline = types.BoolValue(seen.certified), types.BoolValue(false)
}

// parseKlusterletID takes [NAMESPACE/]CLUSTER_NAME@KUBECONFIG_PATH[#CONTEXT]
// apart.
func parseKlusterletID(text string, diags *diag.Diagnostics) klusterletIdentity {
	name, location, found := strings.Cut(text, "@")
	namespace, rest, namespaced := strings.Cut(name, "/")
	if namespaced {
		name = rest
	} else {
		namespace = ""
	}
	kubeconfig, context, _ := strings.Cut(location, "#")
	if !found || name == "" || kubeconfig == "" || (namespaced && namespace == "") {
		diags.AddError("Invalid import ID",
			fmt.Sprintf("%q does not say which agent and where: the ID has the form CLUSTER_NAME@KUBECONFIG_PATH, "+
				"such as c1@~/.kube/c1.yaml, with #CONTEXT behind it and NAMESPACE/ before it if need be.", text))
		return klusterletIdentity{}
	}
	return klusterletIdentity{
		ClusterName: types.StringValue(name), Namespace: attribute.OptionalString(namespace),
		KubeconfigPath: types.StringValue(kubeconfig), Context: attribute.OptionalString(context),
	}
}

// validKubeconfig admits kubeconfigs with a current context. It never repeats the value.
func validKubeconfig() validator.String {
	return attribute.ValidText("a kubeconfig with a "+
		"current context", func(_ path.Path, text string) (summary, detail string) {
		if server, ok := serverOf([]byte(text)); ok && server != "" {
			return "", ""
		}
		return "Invalid kubeconfig", "The value is not a kubeconfig whose current context names a server. Use the " +
			"attribute kubeconfig of the ephemeral resource muster_bootstrap_kubeconfig, or leave it out, and the " +
			"provider makes one."
	})
}
