// Package deploy brings the agents of add-ons from templates into clusters: it makes
// the manifests of each cluster, puts them into ManifestWorks, and reports how these
// are. When an add-on is deleted, it runs what the template has for that, and removes
// what is in a hosting cluster.
//
// A pass looks at one ManagedClusterAddOn. It deploys when the add-on is registered
// and configured, and the template and the deployment configuration are those that the
// cluster is to have. A cluster whose turn in a rollout has not come keeps its works
// as they are. Nothing is remembered between passes but templates that have been
// parsed.
//
// Add-ons with managers of their own are left to these.
package deploy

import (
	"context"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// Options say how add-ons are deployed.
type Options struct {
	// ManifestLimit is the greatest total size of a work's manifests, in bytes;
	// work.DefaultManifestLimit when it is 0.
	ManifestLimit int
}

// Controller reconciles the works of ManagedClusterAddOns.
type Controller struct {
	client client.Client
	works  worksReader
	// live reads past the caches.
	live    client.Reader
	sources *sources
	events  events.EventRecorder
	clock   clock.PassiveClock
	limit   int
}

// NewController makes the controller. objects reads objects without Go types, and
// live past the caches.
func NewController(c client.Client, objects, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, o Options) *Controller {
	if o.ManifestLimit == 0 {
		o.ManifestLimit = work.DefaultManifestLimit
	}
	return &Controller{client: c, works: liveWorks(c), live: live, sources: newSources(objects), events: recorder, clock: clk, limit: o.ManifestLimit}
}

// Reconcile looks at one ManagedClusterAddOn.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a := &v1alpha1.ManagedClusterAddOn{}
	if err := c.client.Get(ctx, r.NamespacedName, a); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p, err := c.gather(ctx, a)
	if err != nil || p == nil {
		return reconcile.Result{}, err
	}
	if a.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, c.deploy(ctx, p)
	}
	return reconcile.Result{}, c.remove(ctx, p)
}
