// Package facts reads from a hub what the explanations of package explain are made of, page
// by page and with the rights of a client. What may not be read is left out, and named.
package facts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Reader reads what a hub knows, with the rights of its client.
type Reader struct {
	ctx    context.Context
	client client.Reader
	now    time.Time
	// Scheduling is how the hub decides placements. The default is that of a hub without
	// feature gates.
	Scheduling scheduling.Options
	// Hidden says what may not be read.
	Hidden []string
	// Missing is set when the object to explain does not exist.
	Missing bool
}

// NewReader makes a reader that asks with the rights of a client until ctx ends. It is not
// safe for concurrent use.
func NewReader(ctx context.Context, c client.Reader) *Reader {
	return &Reader{ctx: ctx, client: c, now: time.Now()}
}

// object reads the object to explain.
func (r *Reader) object(key types.NamespacedName, o client.Object) error {
	err := r.client.Get(r.ctx, key, o)
	r.Missing = apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
	if err != nil {
		return fmt.Errorf("read %s from the hub: %w", strings.TrimPrefix(key.String(), "/"), err)
	}
	return nil
}

// may reports whether something could be read. What may not be is noted: that it may not
// be read, and so what is left out.
func (r *Reader) may(err error, what, namespace, out string) (bool, error) {
	if !apierrors.IsForbidden(err) {
		return err == nil, err
	}
	in := ""
	if namespace != "" {
		in = " in " + namespace
	}
	if said := fmt.Sprintf("you may not read %s%s, so %s left out", what, in, out); !slices.Contains(r.Hidden, said) {
		r.Hidden = append(r.Hidden, said)
	}
	return false, nil
}

// get reads one object. It is false where there is none, or it may not be read.
func (r *Reader) get(namespace, name string, o client.Object, what, out string) (found, absent bool, err error) {
	err = r.client.Get(r.ctx, types.NamespacedName{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, true, nil
	}
	found, err = r.may(err, what, namespace, out)
	if err != nil {
		return false, false, fmt.Errorf("read %s: %w", what, err)
	}
	return found, false, nil
}

// list reads objects page by page, and hands each page over. It is false where they may
// not be read, or the hub does not have the kind.
func (r *Reader) list(list client.ObjectList, namespace, what, out string, page func(),
	options ...client.ListOption) (bool, error) {
	options = append(options, client.InNamespace(namespace), client.Limit(ObjectsPerPage))
	for next := ""; ; {
		err := r.client.List(r.ctx, list, append(options, client.Continue(next))...)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return false, nil
		}
		if ok, err := r.may(err, what, namespace, out); !ok || err != nil {
			if err != nil {
				err = fmt.Errorf("list %s: %w", what, err)
			}
			return false, err
		}
		page()
		if next = list.GetContinue(); next == "" {
			return true, nil
		}
		if err := meta.SetList(list, nil); err != nil { // the next page may not reuse what was handed over
			return false, err
		}
	}
}

// ObjectsPerPage is how many objects are read at a time.
const ObjectsPerPage = 250

// maxEvents is of how many certificate requests the events are read.
const maxEvents = 10

// ClusterFacts reads what is known of a managed cluster.
func (r *Reader) ClusterFacts(key types.NamespacedName) (explain.ClusterFacts, error) {
	f := explain.ClusterFacts{Cluster: &clusterv1.ManagedCluster{}, Now: r.now}
	if err := r.object(key, f.Cluster); err != nil {
		return f, err
	}
	lease := &coordinationv1.Lease{}
	found, _, err := r.get(key.Name, cluster.LeaseName, lease, "the lease", "the last heartbeat is")
	if err != nil {
		return f, err
	}
	if found {
		f.Lease = lease
	}
	if err := r.requests(&f); err != nil {
		return f, err
	}
	config := &corev1.ConfigMap{}
	found, _, err = r.get(metav1.NamespacePublic, hubinfo.EndpointsName, config,
		"the ConfigMap "+hubinfo.EndpointsName, "the hub's newest URL is")
	if err != nil {
		return f, err
	}
	if found {
		if published, err := hubinfo.ParseEndpoints(config.Data); err == nil {
			f.Hub = &published
		}
	}
	if !f.Cluster.DeletionTimestamp.IsZero() {
		if err := r.left(&f); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Cluster explains a managed cluster.
func (r *Reader) Cluster(key types.NamespacedName) (explain.Explanation, error) {
	f, err := r.ClusterFacts(key)
	if err != nil {
		return explain.Explanation{}, err
	}
	return explain.Cluster(f), nil
}

// requests reads the certificate requests of a cluster's agents, and what was said about
// those that nobody has decided about.
func (r *Reader) requests(f *explain.ClusterFacts) (err error) {
	selector, err := labels.Parse(cluster.NameLabel + "=" + f.Cluster.Name + ",!" + cluster.AddOnNameLabel)
	if err != nil {
		return fmt.Errorf("%q can't be the name of a cluster: %w", f.Cluster.Name, err)
	}
	list := &certificatesv1.CertificateSigningRequestList{}
	f.RequestsRead, err = r.list(list, "", "certificate requests", "those of its agent are",
		func() { f.Requests = append(f.Requests, list.Items...) },
		client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return err
	}
	f.RequestEvents = map[string][]explain.Event{}
	for i := range f.Requests[:min(len(f.Requests), maxEvents)] {
		q := &f.Requests[i]
		if len(q.Status.Conditions) > 0 {
			continue
		}
		events := &corev1.EventList{}
		if _, err := r.list(events, metav1.NamespaceDefault, "events", "what the hub said about certificate "+
			"requests is", func() {
			for _, e := range events.Items {
				f.RequestEvents[q.Name] = append(f.RequestEvents[q.Name], explain.Event{Reason: e.Reason,
					Message: e.Message, Time: e.LastTimestamp.Time})
			}
		}, client.MatchingFields{"involvedObject.kind": "CertificateSigningRequest",
			"involvedObject.name": q.Name}); err != nil {
			return err
		}
	}
	return nil
}

// left reads what the deletion of a cluster waits for.
func (r *Reader) left(f *explain.ClusterFacts) error {
	for _, kind := range []schema.GroupVersionKind{
		workv1.GroupVersion.WithKind("ManifestWork"), addonv1alpha1.GroupVersion.WithKind("ManagedClusterAddOn"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if _, err := r.list(list, f.Cluster.Name, "the "+kind.Kind+"s", "those that the deletion waits for are",
			func() {
				for _, o := range list.Items {
					f.Left = append(f.Left, explain.Left{Kind: kind.Kind, Name: o.Name,
						Deleting: o.DeletionTimestamp != nil, Finalizers: o.Finalizers})
				}
			}); err != nil {
			return err
		}
	}
	return nil
}

// cluster reads the managed cluster that something belongs to.
func (r *Reader) cluster(name string) (m *clusterv1.ManagedCluster, absent bool, err error) {
	m = &clusterv1.ManagedCluster{}
	found, absent, err := r.get("", name, m, "the ManagedCluster "+name, "how its agent is, is")
	if !found {
		m = nil
	}
	return m, absent, err
}

// Work explains a ManifestWork.
func (r *Reader) Work(key types.NamespacedName) (explain.Explanation, error) {
	f := explain.WorkFacts{Work: &workv1.ManifestWork{}, Now: r.now}
	if err := r.object(key, f.Work); err != nil {
		return explain.Explanation{}, err
	}
	var err error
	f.Cluster, f.NoCluster, err = r.cluster(key.Namespace)
	if err != nil {
		return explain.Explanation{}, err
	}
	return explain.Work(f), nil
}

// Placement explains a Placement.
func (r *Reader) Placement(key types.NamespacedName) (explain.Explanation, error) {
	f := explain.PlacementFacts{Placement: &clusterv1beta1.Placement{}, Now: r.now}
	if err := r.object(key, f.Placement); err != nil {
		return explain.Explanation{}, err
	}
	complete := true
	fleet, compiled := &scheduling.Snapshot{}, scheduling.Compile(f.Placement, r.Scheduling)
	err := fleet.Take(r.ctx, func(ctx context.Context, list runtime.Object, namespace string) error {
		kind := strings.TrimSuffix(fmt.Sprintf("%T", list)[strings.LastIndex(fmt.Sprintf("%T", list), ".")+1:], "List")
		objects, ok := list.(client.ObjectList)
		if !ok {
			return fmt.Errorf("%s can't be listed", kind)
		}
		var all []runtime.Object
		read, err := r.list(objects, namespace, "the "+kind+"s", "why clusters are not selected is", func() {
			items, _ := meta.ExtractList(objects)
			all = append(all, items...)
		})
		complete = complete && read
		if err != nil || !read {
			return err
		}
		return meta.SetList(list, all)
	}, compiled, r.now)
	if err != nil {
		return explain.Explanation{}, err
	}
	if complete {
		in := fleet.Input(f.Placement)
		in.Now, in.Explain = r.now, true
		if f.Decided, err = compiled.ScheduleWithin(r.ctx, in); err != nil {
			return explain.Explanation{}, fmt.Errorf("work out why clusters are selected or not: %w", err)
		}
		f.Fleet = fleet
	}
	return explain.Placement(f), nil
}

// Rollout explains a ManifestWorkReplicaSet.
func (r *Reader) Rollout(key types.NamespacedName) (explain.Explanation, error) {
	f := explain.RolloutFacts{Set: &workv1alpha1.ManifestWorkReplicaSet{},
		Clusters: map[string]*clusterv1.ManagedCluster{}, Now: r.now}
	if err := r.object(key, f.Set); err != nil {
		return explain.Explanation{}, err
	}
	// Without it the hub's own report says what is wrong.
	own, err := override.Of(f.Set, func(name string) (*musterv1alpha1.WorkOverride, error) {
		o := &musterv1alpha1.WorkOverride{}
		return o, r.object(types.NamespacedName{Namespace: key.Namespace, Name: name}, o)
	})
	if err == nil && own != nil {
		f.Own = func(mc *clusterv1.ManagedCluster) string { return own.DigestFor(r.ctx, mc) }
	}
	works, decisions, clusters := &workv1.ManifestWorkList{}, &clusterv1beta1.PlacementDecisionList{},
		&clusterv1.ManagedClusterList{}
	const out = "how far it is in which cluster is"
	read, err := r.list(works, "", "ManifestWorks", out, func() {
		for i := range works.Items {
			w := &works.Items[i]
			w.Spec, w.ManagedFields = workdigest.Lean(w.Spec), nil
			f.Works = append(f.Works, *w)
		}
	}, client.MatchingLabels{work.ReplicaSetLabel: key.Namespace + "." + key.Name})
	if err != nil {
		return explain.Explanation{}, err
	}
	decided, err := r.list(decisions, key.Namespace, "PlacementDecisions", out,
		func() { f.Decisions = append(f.Decisions, decisions.Items...) })
	if err != nil {
		return explain.Explanation{}, err
	}
	f.Read = read && decided
	if _, err := r.list(clusters, "", "ManagedClusters", "which clusters are away is", func() {
		for i := range clusters.Items {
			f.Clusters[clusters.Items[i].Name] = &clusters.Items[i]
		}
	}); err != nil {
		return explain.Explanation{}, err
	}
	return explain.Rollout(f), nil
}

// AddOn explains a ManagedClusterAddOn.
func (r *Reader) AddOn(key types.NamespacedName) (explain.Explanation, error) {
	f := explain.AddOnFacts{AddOn: &addonv1alpha1.ManagedClusterAddOn{}, Now: r.now}
	if err := r.object(key, f.AddOn); err != nil {
		return explain.Explanation{}, err
	}
	definition := &addonv1alpha1.ClusterManagementAddOn{}
	found, absent, err := r.get("", key.Name, definition, "the ClusterManagementAddOn "+key.Name,
		"how it is installed is")
	if err != nil {
		return explain.Explanation{}, err
	}
	if f.NoDefinition = absent; found {
		f.Definition = definition
	}
	if f.Cluster, _, err = r.cluster(key.Namespace); err != nil {
		return explain.Explanation{}, err
	}
	works := &workv1.ManifestWorkList{}
	if _, err := r.list(works, key.Namespace, "the ManifestWorks", "how its manifests are, is",
		func() { f.Works = append(f.Works, works.Items...) },
		client.MatchingLabels{cluster.AddOnNameLabel: key.Name}); err != nil {
		return explain.Explanation{}, err
	}
	return explain.AddOn(f), nil
}

// Cloud explains a LogicalCloud.
func (r *Reader) Cloud(key types.NamespacedName) (explain.Explanation, error) {
	f := explain.CloudFacts{Cloud: &musterv1alpha1.LogicalCloud{}, Now: r.now}
	if err := r.object(key, f.Cloud); err != nil {
		return explain.Explanation{}, err
	}
	requests := &musterv1alpha1.AccessRequestList{}
	if _, err := r.list(requests, key.Namespace, "AccessRequests", "who has access is", func() {
		for _, q := range requests.Items {
			if q.Spec.LogicalCloud == key.Name {
				f.Requests = append(f.Requests, q)
			}
		}
	}); err != nil {
		return explain.Explanation{}, err
	}
	return explain.Cloud(f), nil
}

// Import explains a ClusterImport.
func (r *Reader) Import(key types.NamespacedName) (explain.Explanation, error) {
	i := &musterv1alpha1.ClusterImport{}
	if err := r.object(key, i); err != nil {
		return explain.Explanation{}, err
	}
	return explain.Import(i, r.now), nil
}

// mostNames is how many names are read for completions and suggestions.
const mostNames = 2000

// Names are the names of the objects of a kind, as far as they may be read.
func (r *Reader) Names(kind schema.GroupVersionKind, namespace string) []string {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	var names []string
	err := r.client.List(r.ctx, list, client.InNamespace(namespace), client.Limit(mostNames))
	if _, err = r.may(err, "the "+kind.Kind+"s", namespace, "names like it are"); err != nil {
		return nil
	}
	for _, o := range list.Items {
		names = append(names, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
	}
	return names
}
