// Package admission checks and completes what clients write to a hub. Upstream
// does this with webhooks; here it runs inside the API server. The rules and
// their messages are those of Open Cluster Management. The checks ask the
// server's own authorizer. It must not import the controllers.
package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Plugins are the hub's admission plugins in the order in which they run.
// manifestLimit is the greatest total size of a work's manifests, in bytes.
func Plugins(clk clock.PassiveClock, gates featuregate.FeatureGate, manifestLimit int) []extension.AdmissionPlugin {
	s := &server{}
	scheme := runtime.NewScheme()
	kinds.AddToScheme(scheme, kinds.Wire())
	executors := executors{server: s, checkNil: gates.Enabled(features.NilExecutorValidating)}
	defaultSet := gates.Enabled(features.DefaultClusterSet)
	plugins := []extension.AdmissionPlugin{
		// First: the other plugins read what it admits.
		both("MusterReadable", readable{scheme: scheme}),
		// Then this one: the other plugins see what will be stored.
		mutating("MusterAgentWrites", agentWrites{}),
		mutating("MusterUntracked", untracked{}),
		mutating("MusterBootstrapTokenLabels", tokenLabels{server: s}),
		mutating("MusterBootstrapTokenRequests", tokenRequests{server: s}),
		both("MusterClusterRegistration", newClusterRegistrations(s, clk)),
		validating("MusterClientIDs", clientIDs{server: s}),
		both("MusterManagedCluster", managedClusters{
			server: s, clock: clk, defaultSet: defaultSet, cleanResources: gates.Enabled(features.ResourceCleanup),
		}),
		mutating("MusterRolloutGates", rolloutGates{server: s, clock: clk}),
		validating("MusterManagedClusterSetBinding", setBindings{server: s}),
		both("MusterManagedClusterAddOn", managedClusterAddOns{}),
		validating("MusterHosting", hostings{server: s}),
		validating("MusterPlacement", placements{expressions: scheduling.NewExpressions()}),
		validating("MusterManifestWork", manifestWorks{executors: executors, limit: manifestLimit}),
		validating("MusterManifestWorkReplicaSet", manifestWorkReplicaSets{
			executors: executors, enabled: gates.Enabled(features.ManifestWorkReplicaSet), limit: manifestLimit,
			overrides: gates.Enabled(features.WorkOverride),
		}),
		validating("MusterClusterImport", clusterImports{server: s, enabled: gates.Enabled(features.ClusterImport), defaultSet: defaultSet}),
		validating("MusterPlacementDecision", placementDecisions{server: s}),
		validating("MusterCertificateRequest", certificateRequests{requestLimits: newRequestLimits(clk)}),
		validating("MusterAddOnCertificateRequest", addOnRequests{server: s}),
	}
	if gates.Enabled(features.UserAccess) {
		plugins = append(plugins,
			both("MusterAccessRequest", newAccessRequests(s, clk)),
			validating("MusterClusterCredential", clusterCredentials{}),
			validating("MusterLogicalCloud", logicalClouds{server: s}),
			validating("MusterAccessRole", accessRoles{}),
			validating("MusterCloudWork", cloudWorks{}))
	}
	if gates.Enabled(features.WorkPreview) {
		previews := workPreviews{executors: executors, limit: manifestLimit}
		plugins = append(plugins, validating("MusterWorkPreview", previews))
	}
	overrides := gates.Enabled(features.WorkOverride)
	templates := addOnTemplates{enabled: overrides, limit: manifestLimit}
	plugins = append(plugins, validating("MusterAddOnTemplate", templates))
	if overrides {
		plugins = append(plugins, both("MusterWorkOverride", workOverrides{}))
	}
	// Last: a request that another plugin refuses does not count as a use.
	return append(plugins, validating("MusterBootstrapTokenUse", tokenUses{server: s, writing: keymutex.NewHashed(0)}))
}

func mutating(name string, p admission.MutationInterface) extension.AdmissionPlugin {
	return extension.AdmissionPlugin{Name: name, Factory: func(io.Reader) (admission.Interface, error) { return p, nil }}
}

func validating(name string, p admission.ValidationInterface) extension.AdmissionPlugin {
	return extension.AdmissionPlugin{Name: name, Factory: func(io.Reader) (admission.Interface, error) { return p, nil }}
}

func both(name string, p interface {
	admission.MutationInterface
	admission.ValidationInterface
}) extension.AdmissionPlugin {
	return mutating(name, p)
}

// creations is part of plugins that look at new objects.
type creations struct{}

// Handles is part of admission.Interface.
func (creations) Handles(op admission.Operation) bool { return op == admission.Create }

// writes is part of plugins that look at new and at changed objects.
type writes struct{}

// Handles is part of admission.Interface.
func (writes) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// server is what the API server gives to plugins before it serves. They share one.
type server struct {
	authorizer authorizer.Authorizer
	// namespaces and secrets are the server's own cache.
	namespaces corelisters.NamespaceLister
	secrets    corelisters.SecretLister
	client     kubernetes.Interface
	objects    dynamic.Interface
}

var (
	_ initializer.WantsAuthorizer                  = &server{}
	_ initializer.WantsExternalKubeInformerFactory = &server{}
	_ initializer.WantsExternalKubeClientSet       = &server{}
	_ initializer.WantsDynamicClient               = &server{}
)

// SetAuthorizer is called by the API server before it serves.
func (s *server) SetAuthorizer(a authorizer.Authorizer) { s.authorizer = a }

// SetExternalKubeInformerFactory is called by the API server before it serves.
func (s *server) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	s.namespaces, s.secrets = f.Core().V1().Namespaces().Lister(), f.Core().V1().Secrets().Lister()
}

// SetExternalKubeClientSet is called by the API server before it serves.
func (s *server) SetExternalKubeClientSet(c kubernetes.Interface) { s.client = c }

// SetDynamicClient is called by the API server before it serves.
func (s *server) SetDynamicClient(c dynamic.Interface) { s.objects = c }

// ValidateInitialization fails the server's start when something is missing.
func (s *server) ValidateInitialization() error {
	if s.authorizer == nil || s.namespaces == nil || s.client == nil || s.objects == nil {
		return errors.New("the API server gave no authorizer, informers or clients")
	}
	return nil
}

// may reports whether a user may do something. An error of the authorizer
// counts as no.
func (s *server) may(ctx context.Context, u user.Info, r authorizer.AttributesRecord) bool {
	r.User, r.ResourceRequest, r.APIVersion = u, true, "*"
	decision, _, err := s.authorizer.Authorize(ctx, r)
	return err == nil && decision == authorizer.DecisionAllow
}

// namespace looks a namespace up in the cache, and asks the API server for one that the
// cache does not have: it may have been created a moment ago.
func (s *server) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := s.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		ns, err = s.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	return ns, err
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

// objects are the object that a request writes and the stored one, in a Go type; empty
// where there is none.
func objects[T any](a admission.Attributes) (now, before T, err error) {
	if err := errors.Join(decode(a.GetObject(), &now), decode(a.GetOldObject(), &before)); err != nil {
		return now, before, apierrors.NewBadRequest(fmt.Sprintf("the %s cannot be read: %v", a.GetKind().Kind, err))
	}
	return now, before, nil
}

// forbidden refuses a request.
func forbidden(a admission.Attributes, format string, args ...any) error {
	name := a.GetName()
	if o, err := meta.Accessor(a.GetObject()); err == nil && name == "" {
		name = o.GetName() // the server has generated it
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), name, fmt.Errorf(format, args...))
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
