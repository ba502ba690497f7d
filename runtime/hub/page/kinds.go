package page

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain/facts"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// kind is a kind of objects that the page shows: a list of them, and a page of each.
type kind struct {
	// path is the kind's part of URLs, title the heading of its list, and noun what one of
	// its objects is called.
	path, title, noun string
	// in is what the namespaces of its objects are: Cluster, Namespace, or "" for objects
	// without one.
	in string
	// gate is the feature without which a hub does not have the kind; "" is always there.
	gate featuregate.Feature
	// columns are those of the list between the name and the state.
	columns []string
	list    lister
	// costly is that an explanation costs what the object's author likes.
	costly bool
	// explain explains one of them.
	explain func(*facts.Reader, types.NamespacedName) (explain.Explanation, error)
	// sections are what its page shows below the explanation.
	sections func(s *sections, ctx context.Context, key types.NamespacedName) error
}

// lister lists the objects of a kind in a namespace, "" for all.
type lister func(ctx context.Context, r client.Reader, namespace string, now time.Time) ([]row, error)

// row is an object in a list. It points into what the controllers have in memory.
type row struct {
	key    types.NamespacedName
	labels labels.Set
	level  explain.Level
	state  string
	// cells are those of the kind's columns.
	cells func() []cell
}

// cell is a cell of a table.
type cell struct {
	Text string
	// Path leads to a page about it; "" to none.
	Path string
	// Level marks it; "" does not.
	Level explain.Level
	// Part of Whole is done; 0 of 0 is no progress.
	Part, Whole int
}

func texts(of ...string) []cell {
	out := make([]cell, len(of))
	for i, t := range of {
		out[i].Text = t
	}
	return out
}

// kindsOf are the kinds that a hub with these features has, in the order of the page.
func kindsOf(has featuregate.FeatureGate) []kind {
	return slices.DeleteFunc(allKinds(), func(k kind) bool { return k.gate != "" && !has.Enabled(k.gate) })
}

func allKinds() []kind {
	return []kind{
		{
			path: "clusters", title: "Clusters", noun: "cluster", columns: []string{"Set", "Kubernetes"},
			list: listed(func(l *clusterv1.ManagedClusterList) []clusterv1.ManagedCluster { return l.Items },
				func(m *clusterv1.ManagedCluster, now time.Time) row {
					level, state := explain.ClusterState(m, now)
					return row{level: level, state: state, cells: func() []cell {
						set := cell{Text: m.Labels[cluster.ClusterSetLabel]}
						if set.Text != "" {
							set.Path = listPath("clusters", "set", set.Text)
						}
						return []cell{set, {Text: m.Status.Version.Kubernetes}}
					}}
				}),
			explain: (*facts.Reader).Cluster, sections: (*sections).cluster,
		},
		{
			path: "placements", title: "Placements", noun: "placement", in: "Namespace", columns: []string{"Clusters"},
			list: listed(func(l *clusterv1beta1.PlacementList) []clusterv1beta1.Placement { return l.Items },
				func(p *clusterv1beta1.Placement, _ time.Time) row {
					level, state := explain.PlacementState(p)
					return row{level: level, state: state, cells: func() []cell {
						return texts(fmt.Sprint(p.Status.NumberOfSelectedClusters))
					}}
				}),
			costly:  true,
			explain: (*facts.Reader).Placement, sections: (*sections).placement,
		},
		{
			path: "rollouts", title: "Rollouts", noun: "replica set", in: "Namespace", columns: []string{"Available"},
			gate: features.ManifestWorkReplicaSet,
			list: listed(
				func(l *workv1alpha1.ManifestWorkReplicaSetList) []workv1alpha1.ManifestWorkReplicaSet {
					return l.Items
				},
				func(s *workv1alpha1.ManifestWorkReplicaSet, _ time.Time) row {
					level, state := explain.RolloutState(s)
					return row{level: level, state: state, cells: func() []cell { return []cell{progressOf(s)} }}
				},
			),
			explain: (*facts.Reader).Rollout, sections: (*sections).rollout,
		},
		{
			path: "works", title: "Works", noun: "work", in: "Cluster",
			list: listed(func(l *workv1.ManifestWorkList) []workv1.ManifestWork { return l.Items },
				func(w *workv1.ManifestWork, _ time.Time) row {
					level, state := explain.WorkState(w)
					return row{level: level, state: state}
				}),
			explain: (*facts.Reader).Work, sections: (*sections).work,
		},
		{
			path: "addons", title: "Add-ons", noun: "add-on", in: "Cluster", gate: features.AddonManagement,
			list: listed(
				func(l *addonv1alpha1.ManagedClusterAddOnList) []addonv1alpha1.ManagedClusterAddOn { return l.Items },
				func(a *addonv1alpha1.ManagedClusterAddOn, _ time.Time) row {
					level, state := explain.AddOnState(a)
					return row{level: level, state: state}
				},
			),
			explain: (*facts.Reader).AddOn, sections: (*sections).addOn,
		},
		{
			path: "imports", title: "Imports", noun: "cluster import", gate: features.ClusterImport,
			list: listed(func(l *musterv1alpha1.ClusterImportList) []musterv1alpha1.ClusterImport { return l.Items },
				func(i *musterv1alpha1.ClusterImport, _ time.Time) row {
					level, state := explain.ImportState(i)
					return row{level: level, state: state}
				}),
			explain: (*facts.Reader).Import, sections: (*sections).clusterImport,
		},
		{
			path: "clouds", title: "Logical clouds", noun: "logical cloud", in: "Namespace", gate: features.UserAccess,
			columns: []string{"Ready"},
			list: listed(func(l *musterv1alpha1.LogicalCloudList) []musterv1alpha1.LogicalCloud { return l.Items },
				func(c *musterv1alpha1.LogicalCloud, _ time.Time) row {
					level, state := explain.CloudState(c)
					return row{level: level, state: state, cells: func() []cell {
						n := c.Status.Clusters
						return []cell{{Text: fmt.Sprintf("%d of %d", n.Ready, n.Selected), Part: int(n.Ready),
							Whole: int(n.Selected)}}
					}}
				}),
			explain: (*facts.Reader).Cloud, sections: (*sections).cloud,
		},
	}
}

// progressOf is how far a replica set is.
func progressOf(s *workv1alpha1.ManifestWorkReplicaSet) cell {
	n := s.Status.Summary
	return cell{Text: fmt.Sprintf("%d of %d", n.Available, n.Total), Part: n.Available, Whole: n.Total}
}

// listed makes the list of a kind from what a list of objects is in the API, and from what
// is shown of one.
func listed[L, O any, PL interface {
	*L
	client.ObjectList
}, PO interface {
	*O
	metav1.Object
}](items func(PL) []O, show func(PO, time.Time) row) lister {
	return func(ctx context.Context, r client.Reader, namespace string, now time.Time) ([]row, error) {
		list := PL(new(L))
		if err := r.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		objects := items(list)
		rows := make([]row, 0, len(objects))
		for i := range objects {
			o := PO(&objects[i])
			one := show(o, now)
			one.key = types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
			one.labels = o.GetLabels()
			rows = append(rows, one)
		}
		return rows, nil
	}
}

// matches reports whether a text is in what a row says.
func (o *row) matches(text string) bool {
	return strings.Contains(strings.ToLower(o.key.String()+" "+o.state), text)
}

// pathOf is the page of an object of the kind with this path.
func pathOf(path string, key types.NamespacedName) string {
	if key.Namespace == "" {
		return Path + path + "/" + url.PathEscape(key.Name)
	}
	return Path + path + "/" + url.PathEscape(key.Namespace) + "/" + url.PathEscape(key.Name)
}

// listPath is the list of a kind with a filter.
func listPath(path, filter, value string) string {
	return Path + path + "?" + url.Values{filter: {value}}.Encode()
}
