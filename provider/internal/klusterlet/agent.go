package klusterlet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
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

// joining is the hub's side of installing an agent.
type joining struct {
	hub    *hub.Hub
	client *kube.Client
	name   string
}

// joining prepares the hub's side. It is nil when there is no hub to talk to: an
// agent can be installed without.
func (r *klusterletResource) joining(name string) *joining {
	var ignored diag.Diagnostics
	if r.Hub == nil || r.Hub.IsUnknown() {
		return nil
	}
	client := r.Hub.Client(&ignored)
	if client == nil {
		return nil
	}
	return &joining{hub: r.Hub, client: client, name: name}
}

// record is the ManagedCluster; nil after an error, and where there is no hub.
func (j *joining) record(ctx context.Context) (*clusterv1.ManagedCluster, error) {
	if j == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hub.ReadBudget)
	defer cancel()
	object := &clusterv1.ManagedCluster{}
	if err := j.client.Get(ctx, object, "", j.name); err != nil {
		return nil, err
	}
	return object, nil
}

// cluster is the ManagedCluster; nil when there is none, or the hub does not show it.
func (j *joining) cluster(ctx context.Context) *clusterv1.ManagedCluster {
	object, _ := j.record(ctx)
	return object
}

// elsewhere is the UID of the other cluster that has the name, as far as the hub
// can know: an agent was installed there, and it is available.
func elsewhere(object *clusterv1.ManagedCluster, uid string) (other string, ok bool) {
	if object == nil {
		return "", false
	}
	other = object.Annotations[muster.ClusterUIDAnnotation]
	return other, other != "" && other != uid &&
		meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionAvailable)
}

// strayed says why the agent that was seen belongs to another hub than this one;
// empty when it does not, or nobody can know. That is so when its kubeconfig leads
// elsewhere than a new one would, and this hub does not hear from it.
func (j *joining) strayed(ctx context.Context, a *agent, seen observation) string {
	if j == nil || !seen.certified || !a.keepsBootstrap() || a.choosesHub() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	here, err := a.bootstrap("").Endpoint(ctx, j.hub, j.client)
	if err != nil || here.Equal(seen.where) {
		return ""
	}
	object := &clusterv1.ManagedCluster{}
	err = j.client.Get(ctx, object, "", j.name)
	if err != nil && !kube.IsNotFound(err, j.name) {
		return ""
	}
	standing := "has no ManagedCluster of this name"
	switch available := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionAvailable); {
	case err != nil && a.ownsKubeconfig():
		return "" // It may well be another hub's on purpose.
	case err != nil:
	case available != nil && available.Status == metav1.ConditionTrue:
		return ""
	case available == nil:
		standing = "has never heard from it"
	default:
		standing = fmt.Sprintf("does not hear from it (%s)", available.Message)
	}
	if here.Server == seen.where.Server {
		return fmt.Sprintf("Its kubeconfig leads to a hub at %s with another certificate authority than the hub that "+
			"is there now, and this hub %s. The hub was probably rebuilt.", seen.where.Server, standing)
	}
	return fmt.Sprintf("Its kubeconfig leads to the hub at %s. This hub is at "+
		"%s, and %s.", seen.where.Server, here.Server, standing)
}

// note writes down on the hub which cluster the agent is in. That is a service
// to other configurations, which may go wrong.
func (j *joining) note(ctx context.Context, object *clusterv1.ManagedCluster, uid string) {
	if object == nil || object.Annotations[muster.ClusterUIDAnnotation] == uid {
		return
	}
	noted := &clusterv1.ManagedCluster{}
	noted.Name = j.name
	_ = j.client.MergePatch(ctx, noted, hub.FieldManager, map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{muster.ClusterUIDAnnotation: uid},
	}})
}

// allow lets the holder of a bootstrap kubeconfig join a cluster again that has
// joined before. A muster hub gets the permission with the token, and approves the
// agent's request by itself. Elsewhere the request has to be approved: approve
// is true.
func (j *joining) allow(ctx context.Context, by bearer) (approve bool, err error) {
	if by.token == "" {
		return by.jti != "", nil
	}
	able, err := j.hub.Has(ctx, j.client, hubinfo.Rejoin)
	if err != nil || !able {
		return true, err
	}
	secret := &corev1.Secret{}
	name := cluster.TokenSecretPrefix + by.token
	if err := j.client.Get(ctx, secret, metav1.NamespaceSystem, name); err != nil {
		return true, fmt.Errorf("look at the bootstrap token %s: %w", by.token, err)
	}
	groups := strings.Split(string(secret.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]), ",")
	if !slices.Contains(cluster.BoundClusters(groups), j.name) {
		return true, nil
	}
	err = j.client.MergePatch(ctx, secret, hub.FieldManager, map[string]any{"metadata": map[string]any{
		"resourceVersion": secret.ResourceVersion, "annotations": map[string]any{cluster.RejoinAnnotation: j.name},
	}})
	if err != nil {
		return true, fmt.Errorf("let the bootstrap token %s be used to join again: %w", by.token, err)
	}
	return false, nil
}

// approve waits for the one request that the holder of a bootstrap kubeconfig
// makes for the cluster, and approves it.
func (j *joining) approve(ctx context.Context, by bearer) error {
	type request = certificatesv1.CertificateSigningRequest
	requests := &certificatesv1.CertificateSigningRequestList{}
	return j.client.WaitList(ctx, requests, &request{}, registration.RequestsOf(j.name), func() (bool, error) {
		mine := slices.DeleteFunc(slices.Clone(requests.Items), func(r request) bool { return !by.made(&r) })
		return registration.ApproveOne(ctx, j.client, mine, j.name, nil, "", "Approved by muster_klusterlet, to "+
			"join again.")
	})
}

// bearer is who a bootstrap kubeconfig makes its holder on the hub.
type bearer struct {
	// token is the public half of a bootstrap token.
	token string
	// jti is the ID of a service account's token.
	jti string
}

// bearerOf reads the credential of a kubeconfig's current context.
func bearerOf(kubeconfig []byte) bearer {
	_, user := currentContext(kubeconfig)
	parts := strings.Split(user.Token, ".")
	if len(parts) == 2 && len(parts[0]) == bootstrapapi.BootstrapTokenIDBytes &&
		len(parts[1]) == bootstrapapi.BootstrapTokenSecretBytes {
		return bearer{token: parts[0]}
	}
	if len(parts) != 3 {
		return bearer{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		ID string `json:"jti"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return bearer{}
	}
	return bearer{jti: claims.ID}
}

// credentialID is where Kubernetes notes which token of a service account a
// request came with.
const credentialID = "authentication.kubernetes.io/credential-id"

// made reports whether a request came with this very credential.
func (b bearer) made(request *certificatesv1.CertificateSigningRequest) bool {
	switch {
	case b.token != "":
		return request.Spec.Username == cluster.TokenUser(b.token)
	case b.jti != "":
		return slices.Contains(request.Spec.Extra[credentialID], "JTI="+b.jti)
	}
	return false
}
