package hub

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	multiclusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/discovery"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/health"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/clusterprofile"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/clusterset/binding"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/clusterset/defaultsets"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/clusterset/namespaces"
	setstatus "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/clusterset/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/placement"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/clocksync"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/clusterrole"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/csr"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/lease"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/managedcluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/revocation"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/taint"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/work/completed"
)

// registered is what each controller is to the hub.
type registered interface {
	Register(m ctrl.Manager) error
}

// register adds every controller of the hub to a manager.
func register(m ctrl.Manager, o Options) error {
	c, live := m.GetClient(), m.GetAPIReader()
	controllers := []registered{
		// Registration: from the first certificate request to the last work.
		managedcluster.NewController(c, live, m.GetEventRecorder("registration-controller"), o.Clock, o.Labels, o.autoApproves()),
		csr.NewController(c, m.GetCache(), m.GetEventRecorder("registration-controller"), o.Clock, o.AutoApprove),
		clusterrole.NewController(c, live, o.Labels),
		lease.NewController(c, m.GetEventRecorder("registration-controller"), o.Clock),
		clocksync.NewController(c, o.Clock),
		taint.NewController(c),
		revocation.NewController(c, live, o.Clock),

		// Add-ons: how they fare.
		discovery.NewController(c),
		health.NewController(c),

		// Cluster sets: who belongs where.
		setstatus.NewController(c),
		binding.NewController(c),
		namespaces.NewController(c),

		// Placement: who is chosen.
		placement.NewController(c, m.GetEventRecorder("placement-controller"), o.Clock, o.scheduling()),
	}
	cleaned := o.CleanedResources
	if !o.Features.Enabled(features.ResourceCleanup) {
		cleaned = nil // clusters from before still have to be let go
	}
	objects, err := metadata.NewForConfig(m.GetConfig())
	if err != nil {
		return err
	}
	controllers = append(controllers, gc.NewController(c, live, objects, m.GetEventRecorder("registration-controller"), cleaned))
	if o.Features.Enabled(features.DefaultClusterSet) {
		controllers = append(controllers, defaultsets.NewController(c))
	}
	if o.Features.Enabled(features.ClusterProfile) {
		controllers = append(controllers, clusterprofile.NewController(c, m.GetEventRecorder("registration-controller")))
	}
	if o.Features.Enabled(features.CleanUpCompletedManifestWork) {
		controllers = append(controllers, completed.NewController(c, o.Clock))
	}
	if o.Features.Enabled(features.ManifestWorkReplicaSet) {
		controllers = append(controllers, replicaset.NewController(c, live, o.Clock, o.Features.Enabled(features.RolloutNeedsProgressing)))
	}
	for _, r := range controllers {
		if err := r.Register(m); err != nil {
			return err
		}
	}
	return nil
}

// watched are the kinds that the controllers keep in their cache.
func watched(o Options) []client.Object {
	works := &metav1.PartialObjectMetadata{}
	works.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWork"))
	kinds := []client.Object{
		&clusterv1.ManagedCluster{}, &clusterv1beta2.ManagedClusterSet{}, &clusterv1beta2.ManagedClusterSetBinding{},
		&clusterv1beta1.Placement{}, &clusterv1beta1.PlacementDecision{}, &clusterv1alpha1.AddOnPlacementScore{},
		&certificatesv1.CertificateSigningRequest{}, &coordinationv1.Lease{}, &corev1.Namespace{},
		&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}, works, &addonv1alpha1.ManagedClusterAddOn{},
		&corev1.Secret{},
	}
	if o.Features.Enabled(features.ClusterProfile) {
		kinds = append(kinds, &multiclusterv1alpha1.ClusterProfile{})
	}
	if o.Features.Enabled(features.CleanUpCompletedManifestWork) {
		kinds = append(kinds, &workv1.ManifestWork{})
	}
	if o.Features.Enabled(features.ManifestWorkReplicaSet) {
		kinds = append(kinds, &workv1alpha1.ManifestWorkReplicaSet{})
	}
	return kinds
}
