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
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// Options say how add-ons are deployed.
type Options struct {
	// ManifestLimit is the greatest total size of a work's manifests, in bytes;
	// work.DefaultManifestLimit when it is 0.
	ManifestLimit int
	// Overrides is whether templates may have an override.
	Overrides bool
}

// Controller is the stage that deploys ManagedClusterAddOns.
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
	return &Controller{
		client: c, works: liveWorks(c), live: live, sources: newSources(objects, o), events: recorder, clock: clk,
		limit: o.ManifestLimit,
	}
}

// Pass deploys one ManagedClusterAddOn, and says how far it is.
func (c *Controller) Pass(
	ctx context.Context, _ types.NamespacedName, a *v1alpha1.ManagedClusterAddOn,
) (time.Duration, error) {
	if a == nil {
		return 0, nil
	}
	p, err := c.gather(ctx, a)
	if err != nil || p == nil {
		return 0, errors.Join(err, c.progress(ctx, a))
	}
	if a.DeletionTimestamp.IsZero() {
		err = c.deploy(ctx, p)
	} else {
		err = c.remove(ctx, p)
	}
	return 0, errors.Join(err, c.progress(ctx, a, slices.Concat(p.own, p.away)...))
}

const (
	// byHost is the index of ManagedClusterAddOns by their hosting cluster.
	byHost = "addon.host"
	// byHosted is the index of works by the add-on that they are hosted for.
	byHosted = "addon.hosted"
)

// Watch has a controller of ManagedClusterAddOns follow works and clusters.
func (c *Controller) Watch(m manager.Manager, b *builder.Builder) (*builder.Builder, error) {
	lean, err := workcache.NewCache(m, cluster.AddOnNameLabel, workcache.Keep{
		Status: reported, ResourceStatus: true, Manifests: works.Names,
	})
	if err != nil {
		return nil, err
	}
	hosted := func(o client.Object) []string {
		if namespace := o.GetLabels()[addon.AddOnNamespaceLabel]; namespace != "" {
			return []string{namespace + "/" + o.GetLabels()[cluster.AddOnNameLabel]}
		}
		return nil
	}
	if err := lean.IndexField(context.Background(), &workv1.ManifestWork{}, byHosted, hosted); err != nil {
		return nil, err
	}
	if err := m.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.ManagedClusterAddOn{}, byHost, hostOf); err != nil {
		return nil, err
	}
	c.works = worksReader{Reader: lean, hostedFor: func(a *v1alpha1.ManagedClusterAddOn) client.ListOption {
		return client.MatchingFields{byHosted: a.Namespace + "/" + a.Name}
	}}
	return b.
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(watch.Changed(clusterChanged))).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.overriddenIn),
			builder.WithPredicates(watch.Changed(override.Changed))).
		WatchesRawSource(source.Kind[client.Object](lean, &workv1.ManifestWork{},
			addons.OfWork(), watch.Changed(workChanged))), nil
}

// reported is what the cache keeps of a work's status: its conditions, what its agent says
// of objects that are moving, why its first object could not be applied, and what is
// reported of its objects.
func reported(status workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
	var out workv1.ManifestWorkStatus
	for _, condition := range status.Conditions {
		moving := condition.Type == work.ConditionProgressing && condition.Status == metav1.ConditionTrue
		if condition.Type == work.ConditionApplied || condition.Type == work.ConditionAvailable || moving {
			out.Conditions = append(out.Conditions, condition)
		}
	}
	failed := false
	for _, m := range status.ResourceStatus.Manifests {
		applied := meta.FindStatusCondition(m.Conditions, work.ConditionApplied)
		first := applied != nil && applied.Status == "False" && !failed
		if !first && len(m.StatusFeedbacks.Values) == 0 {
			continue
		}
		kept := workv1.ManifestCondition{ResourceMeta: m.ResourceMeta, StatusFeedbacks: m.StatusFeedbacks}
		if first {
			kept.Conditions, failed = append(kept.Conditions, *applied), true
		}
		out.ResourceStatus.Manifests = append(out.ResourceStatus.Manifests, kept)
	}
	return out
}

// Changed selects changes of all that the works depend on, and of what is said of how
// far they are. What else the hub and the agent report of the add-on is not among it,
// apart from what deploying waits for.
func (c *Controller) Changed(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return was.UID != is.UID || was.Generation != is.Generation || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		!maps.Equal(was.Annotations, is.Annotations) || !slices.Equal(was.Finalizers, is.Finalizers) ||
		registered(was) != registered(is) || configured(was) != configured(is) || was.Status.HealthCheck != is.Status.HealthCheck ||
		progressChanged(was, is)
}

// clusterChanged selects what an add-on's manifests, and what is said of it, depend on.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.UID != is.UID || !maps.Equal(was.Annotations, is.Annotations) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		was.Spec.AcceptsClient() != is.Spec.AcceptsClient() || availability(was) != availability(is)
}

// workChanged selects changes of what the cache holds of a work.
func workChanged(was, is *workv1.ManifestWork) bool {
	return was.UID != is.UID || was.Generation != is.Generation || !maps.Equal(was.Labels, is.Labels) ||
		!maps.Equal(was.Annotations, is.Annotations) || !apiequality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences) ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || !apiequality.Semantic.DeepEqual(was.Status, is.Status)
}

// ofCluster are the add-ons in a cluster, and those that it hosts for others.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	in := func(option client.ListOption) []reconcile.Request {
		return watch.Matching[client.Object](ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, nil, option)
	}
	return append(in(client.InNamespace(o.GetName())), in(client.MatchingFields{byHost: o.GetName()})...)
}

// overriddenIn are the add-ons in a cluster whose templates have an override.
func (c *Controller) overriddenIn(ctx context.Context, o client.Object) []reconcile.Request {
	overridden := func(a *v1alpha1.ManagedClusterAddOn) bool { return c.sources.overridden(addons.Template(a)) }
	return watch.Matching(ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, overridden,
		client.InNamespace(o.GetName()))
}

func hostOf(o client.Object) []string {
	if host := o.GetAnnotations()[addon.HostingClusterAnnotation]; host != "" {
		return []string{host}
	}
	return nil
}

// worksReader is where the works of add-ons are found.
type worksReader struct {
	client.Reader
	// hostedFor selects the works of an add-on that are hosted elsewhere.
	hostedFor func(a *v1alpha1.ManagedClusterAddOn) client.ListOption
}

// liveWorks finds works on the server.
func liveWorks(r client.Reader) worksReader {
	return worksReader{Reader: r, hostedFor: func(a *v1alpha1.ManagedClusterAddOn) client.ListOption {
		return client.MatchingLabels{cluster.AddOnNameLabel: a.Name, addon.AddOnNamespaceLabel: a.Namespace}
	}}
}

// own are the works of an add-on in its own cluster. Nobody may change them.
func (r worksReader) own(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) ([]*workv1.ManifestWork, error) {
	return r.list(ctx, a, func(w *workv1.ManifestWork) works.Place { return works.Place{AddOn: a} },
		client.InNamespace(a.Namespace), client.MatchingLabels{cluster.AddOnNameLabel: a.Name})
}

// away are the works of an add-on in hosting clusters.
func (r worksReader) away(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) ([]*workv1.ManifestWork, error) {
	return r.list(ctx, a, func(w *workv1.ManifestWork) works.Place { return works.Place{AddOn: a, Host: w.Namespace} }, r.hostedFor(a))
}

// list are the works that the options select, as far as they are the add-on's in a
// place.
func (r worksReader) list(
	ctx context.Context, a *v1alpha1.ManagedClusterAddOn, place func(*workv1.ManifestWork) works.Place, options ...client.ListOption,
) ([]*workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	if err := r.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list the works of the add-on %s of the cluster %s: %w", a.Name, a.Namespace, err)
	}
	var out []*workv1.ManifestWork
	for i := range list.Items {
		if w := &list.Items[i]; place(w).Owns(w) {
			out = append(out, w)
		}
	}
	return out, nil
}
