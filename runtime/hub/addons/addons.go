// Package addons has what the controllers of add-ons share: the ManagedClusterAddOns
// of an add-on, without a look at each cluster, and what its placements select.
package addons

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
)

// byName is the index of ManagedClusterAddOns by their name, which is that of their
// ClusterManagementAddOn. API servers know it as a field, so that a client without
// a cache can use it, too.
const byName = "metadata.name"

// Index adds the index that the controllers of add-ons need to a cache. It is done
// once for all of them.
func Index(in client.FieldIndexer) error {
	name := func(o client.Object) []string { return []string{o.GetName()} }
	if err := in.IndexField(context.Background(), &v1alpha1.ManagedClusterAddOn{}, byName, name); err != nil {
		return fmt.Errorf("index the add-ons of clusters by their names: %w", err)
	}
	if err := in.IndexField(context.Background(), &v1alpha1.ManagedClusterAddOn{}, byConfig, configsOf); err != nil {
		return fmt.Errorf("index the add-ons of clusters by their configurations: %w", err)
	}
	return nil
}

// InClusters are the ManagedClusterAddOns of an add-on, in all clusters. Nobody may
// change them.
func InClusters(ctx context.Context, r client.Reader, name string) ([]*v1alpha1.ManagedClusterAddOn, error) {
	list := &v1alpha1.ManagedClusterAddOnList{}
	if err := r.List(ctx, list, client.MatchingFields{byName: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the add-on %s of all clusters: %w", name, err)
	}
	out := make([]*v1alpha1.ManagedClusterAddOn, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// OfDefinition enqueues the ManagedClusterAddOns of a ClusterManagementAddOn.
func OfDefinition(r client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		named := client.MatchingFields{byName: o.GetName()}
		return watch.Matching[client.Object](ctx, r, &v1alpha1.ManagedClusterAddOnList{}, nil, named)
	})
}

// ManagerChanged selects changes of who manages an add-on.
func ManagerChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	return was.UID != is.UID || configs.SelfManaged(was) != configs.SelfManaged(is) ||
		configs.FromTemplate(was) != configs.FromTemplate(is)
}

// OfWork enqueues the ManagedClusterAddOn of a work, also of one in a hosting cluster.
func OfWork() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[cluster.AddOnNameLabel]}
		if hostedFor := o.GetLabels()[addon.AddOnNamespaceLabel]; hostedFor != "" {
			key.Namespace = hostedFor
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
}

// Definition reads the ClusterManagementAddOn of an add-on; it is nil when there is
// none. Nobody may change it.
func Definition(ctx context.Context, r client.Reader, name string) (*v1alpha1.ClusterManagementAddOn, error) {
	return apply.Read(ctx, r, types.NamespacedName{Name: name}, &v1alpha1.ClusterManagementAddOn{}, client.UnsafeDisableDeepCopy)
}

// OwnerReference is what a ManagedClusterAddOn says of its ClusterManagementAddOn.
// It names v1beta1, as upstream's does.
func OwnerReference(a *v1alpha1.ClusterManagementAddOn) metav1.OwnerReference {
	return *metav1.NewControllerRef(a, v1beta1.GroupVersion.WithKind("ClusterManagementAddOn"))
}

// Annotations are those of a cluster's annotations that its add-ons get, too.
func Annotations(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, addon.AnnotationPrefix) })
	return out
}

// Manager acts as the service account of upstream's add-on manager. AddOnTemplates
// name roles and Secrets; what comes of that is limited to what this service account
// may do, and the API server decides it.
type Manager struct {
	// Plain has the rights that administrators have given to the service account.
	Plain client.Client
	// Usual has, in addition, those that upstream's add-on manager has from the start
	// and that can do no harm to the hub or to other clusters.
	Usual client.Client
}

// NewManager makes the clients from an administrator's config. They read from the
// server.
func NewManager(admin *rest.Config, o client.Options) (Manager, error) {
	plain, err := actAs(admin, o)
	if err != nil {
		return Manager{}, err
	}
	usual, err := actAs(admin, o, addon.ManagerUsualGroup)
	return Manager{Plain: plain, Usual: usual}, err
}

func actAs(admin *rest.Config, o client.Options, groups ...string) (client.Client, error) {
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: addon.ManagerUser,
		Groups:   append([]string{"system:serviceaccounts", "system:serviceaccounts:" + cluster.HubNamespace, addon.ManagerGroup}, groups...),
	}
	c, err := client.New(config, o)
	if err != nil {
		return nil, fmt.Errorf("act as the add-on manager: %w", err)
	}
	return c, nil
}

// NewCache makes a cache of the objects of some kinds that have a label, and adds it to
// a manager. It is apart from the manager's, which holds none that belong to add-ons.
func NewCache(m manager.Manager, label string, kinds ...client.Object) (cache.Cache, error) {
	labelled, err := labels.Parse(label)
	if err != nil {
		return nil, err
	}
	byObject := map[client.Object]cache.ByObject{}
	for _, kind := range kinds {
		byObject[kind] = cache.ByObject{Label: labelled}
	}
	c, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(), ByObject: byObject,
	})
	if err != nil {
		return nil, fmt.Errorf("cache what belongs to add-ons: %w", err)
	}
	return c, m.Add(c)
}

// Selections are what the placements of add-ons select, for one controller of
// ClusterManagementAddOns.
type Selections struct {
	client  client.Client
	rule    selection.Rule
	awaited selection.Awaited
}

// NewSelections reads selections with a client. The rule says which clusters the
// decisions of placements may name.
func NewSelections(c client.Client, rule selection.Rule) *Selections {
	return &Selections{client: c, rule: rule}
}

// Of are the selections of an add-on's placements, in the order of its spec.
func (s *Selections) Of(ctx context.Context, a *v1alpha1.ClusterManagementAddOn) ([]selection.Placed, error) {
	out := make([]selection.Placed, 0, len(a.Spec.InstallStrategy.Placements))
	var refused []string
	for _, p := range a.Spec.InstallStrategy.Placements {
		placed, err := selection.Place(ctx, s.client, s.rule, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		if err != nil {
			return nil, err
		}
		for _, r := range placed.Refused {
			refused = append(refused, r.Cluster)
		}
		out = append(out, placed)
	}
	s.awaited.Remember(types.NamespacedName{Name: a.Name}, refused)
	return out, nil
}

// Forget forgets an add-on that has no selections any more.
func (s *Selections) Forget(name string) { s.awaited.Remember(types.NamespacedName{Name: name}, nil) }

// Watch has a controller of ClusterManagementAddOns follow their selections.
func (s *Selections) Watch(b *builder.Builder) *builder.Builder {
	generation := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return b.
		Watches(&clusterv1beta1.Placement{}, handler.EnqueueRequestsFromMapFunc(s.ofPlacement),
			builder.WithPredicates(watch.Changed(selection.PlacementChanged))).
		Watches(&clusterv1beta1.PlacementDecision{}, handler.EnqueueRequestsFromMapFunc(s.ofDecision)).
		// Which clusters a placement may choose. Our own scheduler writes the
		// decisions again then; of other schedulers that is not known.
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(s.ofCluster),
			builder.WithPredicates(watch.Changed(selection.StandingChanged))).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(s.ofChoice), generation).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(s.ofChoice), generation)
}

func (s *Selections) ofPlacement(ctx context.Context, o client.Object) []reconcile.Request {
	return s.naming(ctx, client.ObjectKeyFromObject(o))
}

func (s *Selections) ofDecision(ctx context.Context, o client.Object) []reconcile.Request {
	return s.naming(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[cluster.PlacementLabel]})
}

// naming are the add-ons that name a placement. There are few add-ons, however many
// clusters they are in.
func (s *Selections) naming(ctx context.Context, placement types.NamespacedName) []reconcile.Request {
	return s.with(ctx, func(p v1alpha1.PlacementStrategy) bool {
		return p.Namespace == placement.Namespace && p.Name == placement.Name
	})
}

// with are the add-ons that one of their placements says something of.
func (s *Selections) with(ctx context.Context, says func(v1alpha1.PlacementStrategy) bool) []reconcile.Request {
	return watch.Matching(ctx, s.client, &v1alpha1.ClusterManagementAddOnList{}, func(a *v1alpha1.ClusterManagementAddOn) bool {
		return slices.ContainsFunc(a.Spec.InstallStrategy.Placements, says)
	})
}

// ofCluster are the add-ons that wait for a cluster, and those that another
// scheduler decides for.
func (s *Selections) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return append(watch.Requests(s.awaited.Of(o.GetName())), s.externallyScheduled(ctx)...)
}

// ofChoice are the add-ons that a change of what may be chosen concerns.
func (s *Selections) ofChoice(ctx context.Context, _ client.Object) []reconcile.Request {
	return append(watch.Requests(s.awaited.In("")), s.externallyScheduled(ctx)...)
}

func (s *Selections) externallyScheduled(ctx context.Context) []reconcile.Request {
	return s.with(ctx, func(p v1alpha1.PlacementStrategy) bool {
		placement := &clusterv1beta1.Placement{}
		key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		return s.client.Get(ctx, key, placement, client.UnsafeDisableDeepCopy) == nil && selection.ScheduledElsewhere(placement)
	})
}
