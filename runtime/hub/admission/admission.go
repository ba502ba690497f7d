// Package admission checks and completes what clients write to a hub. Upstream
// does this with webhooks; here it runs inside the API server. The rules and
// their messages are those of Open Cluster Management. The checks ask the
// server's own authorizer. It must not import the controllers.
package admission

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Plugins are the hub's admission plugins in the order in which they run.
// manifestLimit is the greatest total size of a work's manifests, in bytes.
func Plugins(clk clock.PassiveClock, gates featuregate.FeatureGate, manifestLimit int) []extension.AdmissionPlugin {
	tokens := &tokenScopes{}
	clusters := &managedClusters{
		clock:          clk,
		defaultSet:     gates.Enabled(features.DefaultClusterSet),
		cleanResources: gates.Enabled(features.ResourceCleanup),
		tokens:         tokens,
	}
	nilExecutors := gates.Enabled(features.NilExecutorValidating)
	scheme := runtime.NewScheme()
	kinds.AddToScheme(scheme, kinds.Wire())
	plugins := []extension.AdmissionPlugin{
		// First: the other plugins read what it admits.
		{Name: "MusterReadable", Factory: factory(readable{scheme})},
		// Then this one: the other plugins see what will be stored.
		{Name: "MusterAgentWrites", Factory: factory(agentWrites{})},
		{Name: "MusterBootstrapTokenLabels", Factory: factory(tokenLabels{tokens})},
		{Name: "MusterBootstrapTokenRequests", Factory: factory(tokenRequests{tokens})},
		{Name: "MusterClusterRegistration", Factory: factory(newClusterRegistrations(tokens, clk))},
		{Name: "MusterClientIDs", Factory: factory(&clientIDs{tokenScopes: tokens})},
		{Name: "MusterManagedCluster", Factory: factory(clusters)},
		{Name: "MusterManagedClusterSetBinding", Factory: factory(&setBindings{})},
		{Name: "MusterManagedClusterAddOn", Factory: factory(managedClusterAddOns{})},
		{Name: "MusterHosting", Factory: factory(&hostings{})},
		{Name: "MusterPlacement", Factory: factory(&placements{expressions: scheduling.NewExpressions()})},
		{Name: "MusterManifestWork", Factory: factory(&manifestWorks{executors: executors{checkNil: nilExecutors}, limit: manifestLimit})},
		{Name: "MusterManifestWorkReplicaSet", Factory: factory(&manifestWorkReplicaSets{executors: executors{checkNil: nilExecutors}, enabled: gates.Enabled(features.ManifestWorkReplicaSet), limit: manifestLimit})},
		{Name: "MusterClusterImport", Factory: factory(&clusterImports{enabled: gates.Enabled(features.ClusterImport), defaultSet: gates.Enabled(features.DefaultClusterSet)})},
		{Name: "MusterPlacementDecision", Factory: factory(&placementDecisions{})},
		{Name: "MusterCertificateRequest", Factory: factory(certificateRequests{newRequestLimits(clk)})},
		{Name: "MusterAddOnCertificateRequest", Factory: factory(&addOnRequests{})},
	}
	if gates.Enabled(features.UserAccess) {
		plugins = append(plugins, userAccess(clk)...)
	}
	// Last: a request that another plugin refuses does not count as a use.
	return append(plugins, extension.AdmissionPlugin{
		Name: "MusterBootstrapTokenUse", Factory: factory(&tokenUses{tokenScopes: tokens, writing: keymutex.NewHashed(0)}),
	})
}

// userAccess are the plugins of the gate UserAccess.
func userAccess(clk clock.PassiveClock) []extension.AdmissionPlugin {
	return []extension.AdmissionPlugin{
		{Name: "MusterAccessRequest", Factory: factory(&accessRequests{clock: clk, recent: budget.Recent[recentAccess]{Within: inFlight}})},
		{Name: "MusterClusterCredential", Factory: factory(clusterCredentials{})},
		{Name: "MusterLogicalCloud", Factory: factory(&logicalClouds{})},
		{Name: "MusterAccessRole", Factory: factory(accessRoles{})},
		{Name: "MusterCloudWork", Factory: factory(cloudWorks{})},
	}
}

func factory(p admission.Interface) admission.Factory {
	return func(io.Reader) (admission.Interface, error) { return p, nil }
}

// access asks the server's authorizer.
type access struct {
	authorizer authorizer.Authorizer
}

var _ initializer.WantsAuthorizer = &access{}

// SetAuthorizer is called by the API server before it serves.
func (a *access) SetAuthorizer(authz authorizer.Authorizer) { a.authorizer = authz }

// ValidateInitialization fails the server's start when the authorizer is missing.
func (a *access) ValidateInitialization() error {
	if a.authorizer == nil {
		return fmt.Errorf("no authorizer was given")
	}
	return nil
}

// may reports whether a user may do something. An error of the authorizer
// counts as no.
func (a *access) may(ctx context.Context, u user.Info, r authorizer.AttributesRecord) bool {
	r.User, r.ResourceRequest, r.APIVersion = u, true, "*"
	decision, _, err := a.authorizer.Authorize(ctx, r)
	return err == nil && decision == authorizer.DecisionAllow
}

// namespaces looks up namespaces in the server's own cache.
type namespaces struct {
	lister corelisters.NamespaceLister
}

// get looks a namespace up in the cache, and asks the API server for one that the cache
// does not have: it may have been created a moment ago.
func (n *namespaces) get(ctx context.Context, c kubernetes.Interface, name string) (*corev1.Namespace, error) {
	ns, err := n.lister.Get(name)
	if apierrors.IsNotFound(err) {
		ns, err = c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	return ns, err
}

// SetExternalKubeInformerFactory is called by the API server before it serves.
func (n *namespaces) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	n.lister = f.Core().V1().Namespaces().Lister()
}

// concerns reports whether a request writes the main resource of the given
// name in the group.
func concerns(a admission.Attributes, group, resource string) bool {
	r := a.GetResource()
	return r.Group == group && r.Resource == resource && a.GetSubresource() == ""
}

// decode reads an object of a request into a Go type. Custom resources arrive
// without one. A nil object leaves into as it is.
func decode(object runtime.Object, into any) error {
	if object == nil {
		return nil
	}
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("expected a custom resource, got %T", object)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}

// boundClusters are the clusters that the user's bootstrap token is bound to.
func boundClusters(u user.Info) ([]string, bool) {
	bound := cluster.BoundClusters(u.GetGroups())
	return bound, len(bound) > 0
}

// namesOf lists names for a message.
func namesOf(clusters []string) string {
	quoted := make([]string, 0, len(clusters))
	for _, c := range clusters {
		quoted = append(quoted, strconv.Quote(c))
	}
	if len(quoted) == 1 {
		return "the cluster " + quoted[0]
	}
	return "the clusters " + strings.Join(quoted, ", ")
}
