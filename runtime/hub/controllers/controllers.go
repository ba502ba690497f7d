// Package controllers lists every controller of the hub. Each has a package of
// its own, whose controller.go has its Options, NewController, Register and Reconcile,
// with the predicates and the functions that map a change to requests; or, when it takes
// no more than a page, a type in the package of its family.
package controllers

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/accessrequest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/hubmade"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/logicalcloud"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/configuration"
	addoncsr "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/csr"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/deploy"
	addonregistration "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/token"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/clusterimport"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/clusterprofile"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/clusterset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/placement"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/clientid"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/csr"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/managedcluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Controller is what each controller is to the hub.
type Controller interface {
	// Register adds the controller to a manager.
	Register(m manager.Manager) error
}

// Options say which controllers there are, and how they work.
type Options struct {
	Clock    clock.PassiveClock
	Features featuregate.FeatureGate
	// Scheduling is how placements are scheduled.
	Scheduling scheduling.Options
	// Members counts the members of cluster sets.
	Members *clusterset.Members
	// FirstAddOns are the statuses of the add-ons that are being installed.
	FirstAddOns *addoncontrollers.FirstStatuses
	// Labels are put on every object that is made for a cluster.
	Labels map[string]string
	// AcceptNew accepts every new cluster, once.
	AcceptNew bool
	// ApprovedUsers are users whose first certificate requests are approved.
	ApprovedUsers []string
	// HubMade asks for access with keys that the hub makes; nil for none.
	HubMade *hubmade.Maker
	// ManifestLimit is the greatest total size of a work's manifests, in bytes.
	ManifestLimit int
	// CleanedResources are deleted with a cluster, one kind after the other.
	CleanedResources []schema.GroupVersionResource
	// Imports are how clusters are imported.
	Imports clusterimport.Options
}

// Register adds every controller of the hub to a manager.
func Register(m manager.Manager, o Options) error {
	all, err := list(m, o)
	if err != nil {
		return err
	}
	managed, err := addOns(m, o)
	if err != nil {
		return err
	}
	all = append(all, managed...)
	for _, c := range all {
		if err := c.Register(m); err != nil {
			return err
		}
	}
	return nil
}

// list makes every controller of the hub but those that manage add-ons.
func list(m manager.Manager, o Options) ([]Controller, error) {
	c, live := m.GetClient(), m.GetAPIReader()
	events := m.GetEventRecorder("registration-controller")
	objects, err := metadata.NewForConfig(m.GetConfig())
	if err != nil {
		return nil, err
	}
	cleaned := o.CleanedResources
	if !o.Features.Enabled(features.ResourceCleanup) {
		cleaned = nil // clusters from before still have to be let go
	}
	all := []Controller{
		// Registration: from the first certificate request to the last work.
		managedcluster.NewController(c, live, events, o.Clock, managedcluster.Options{Labels: o.Labels, AcceptNew: o.AcceptNew}),
		csr.NewController(c, m.GetAPIReader(), m.GetCache(), events, o.Clock, csr.Options{ApprovedUsers: o.ApprovedUsers}),
		managedcluster.NewSharedRoles(c, live, o.Labels),
		registration.NewLeases(c, live, events, o.Clock),
		registration.NewClocks(c, o.Clock),
		registration.NewTaints(c),
		registration.NewRevocation(c, live, o.Clock),
		gc.NewController(c, live, objects, events, gc.Options{Resources: cleaned}),

		// Add-ons: how they are.
		addoncontrollers.NewDiscovery(c),
		addoncontrollers.NewHealth(c),

		// Cluster sets: which cluster belongs where.
		clusterset.NewStatus(c, o.Members),
		clusterset.NewBindings(c),
		clusterset.NewNamespaces(c),

		// Placement: which clusters are chosen.
		placement.NewController(c, m.GetEventRecorder("placement-controller"), o.Clock, o.Scheduling),
	}
	if o.Features.Enabled(features.DefaultClusterSet) {
		all = append(all, clusterset.NewDefaults(c))
	}
	if o.Features.Enabled(features.ClusterRegistration) {
		all = append(all, clientid.NewController(c, m.GetCache(), live, events, o.Clock))
	}
	if o.Features.Enabled(features.ClusterProfile) {
		all = append(all, clusterprofile.NewController(c, events))
	}
	if o.Features.Enabled(features.ClusterImport) {
		all = append(all, clusterimport.NewController(c, live, m.GetEventRecorder("clusterimport-controller"), o.Clock, o.Imports))
	}
	if o.Features.Enabled(features.CleanUpCompletedManifestWork) {
		all = append(all, fleet.NewCompleted(c, o.Clock))
	}
	if o.Features.Enabled(features.WorkPreview) {
		all = append(all, fleet.NewPreviews(c, o.Clock))
	}
	if o.Features.Enabled(features.ManifestWorkReplicaSet) {
		all = append(all, replicaset.NewController(c, live, m.GetEventRecorder("work-controller"), o.Clock, replicaset.Options{
			NeedsProgressing: o.Features.Enabled(features.RolloutNeedsProgressing),
			Rule:             selection.RuleOf(o.Features.Enabled(features.BoundClusterSets)),
			Overrides:        o.Features.Enabled(features.WorkOverride),
			ManifestLimit:    o.ManifestLimit,
		}))
	}
	if o.Features.Enabled(features.UserAccess) {
		all = append(all, logicalcloud.NewController(c, live, o.Clock, logicalcloud.Options{ManifestLimit: o.ManifestLimit, HubMade: o.HubMade}))
		all = append(all, accessrequest.NewController(c, live, m.GetEventRecorder("access-controller"), o.Clock))
	}
	return all, nil
}

// addOns makes the controllers that manage add-ons: where they are installed, and
// with which configuration.
func addOns(m manager.Manager, o Options) ([]Controller, error) {
	if !o.Features.Enabled(features.AddonManagement) {
		return nil, nil
	}
	if err := addons.Index(m.GetFieldIndexer()); err != nil {
		return nil, err
	}
	c := m.GetClient()
	as, err := addons.NewManager(m.GetConfig(), client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
	if err != nil {
		return nil, err
	}
	rule := selection.RuleOf(o.Features.Enabled(features.BoundClusterSets))
	objects, live, events := m.GetCache(), m.GetAPIReader(), m.GetEventRecorder("addon-controller")
	configured := configuration.NewController(c, objects, events, o.Clock, rule)
	stages := addoncontrollers.NewStages(c,
		addoncontrollers.NewOwners(c),
		addonregistration.NewController(c, objects, live, as, o.Clock),
		deploy.NewController(c, objects, live, events, o.Clock, deploy.Options{
			ManifestLimit: o.ManifestLimit, Overrides: o.Features.Enabled(features.WorkOverride),
		}),
	)
	return []Controller{
		addoncontrollers.NewInstaller(c, rule, addoncontrollers.BeginWith(configured.Begin, stages), o.FirstAddOns),
		addoncontrollers.NewAnnotations(c, live), addoncontrollers.NewLifecycle(c),
		configured, stages,
		token.NewController(c, live, o.Clock),
		addoncsr.NewController(c, objects, live, as, events, o.Clock),
	}, nil
}
