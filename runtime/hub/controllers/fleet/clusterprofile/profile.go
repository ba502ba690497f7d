package clusterprofile

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// boundSets are the names of the sets that bindings have bound.
func boundSets(bindings []clusterv1beta2.ManagedClusterSetBinding) []string {
	var names []string
	for i := range bindings {
		b := &bindings[i]
		if b.DeletionTimestamp.IsZero() && meta.IsStatusConditionTrue(b.Status.Conditions, cluster.ConditionBound) {
			names = append(names, b.Spec.ClusterSet)
		}
	}
	return names
}

// isMember reports whether a cluster belongs to one of the sets of these names.
func isMember(mc *clusterv1.ManagedCluster, all []clusterv1beta2.ManagedClusterSet, names []string) bool {
	return slices.ContainsFunc(all, func(s clusterv1beta2.ManagedClusterSet) bool {
		if !slices.Contains(names, s.Name) {
			return false
		}
		selector, err := membership.Selector(&s)
		return err == nil && selector.Matches(labels.Set(mc.Labels))
	})
}

// ours reports whether this hub keeps a profile. The label says so, by which
// clients select. When the label was removed, the spec still does, as it can't be
// changed.
func ours(p *v1alpha1.ClusterProfile) bool {
	return p.Labels[multicluster.ClusterManagerLabel] == multicluster.ClusterManagerName ||
		p.Spec.ClusterManager.Name == multicluster.ClusterManagerName
}

// complete gives a profile what is to be said about a cluster, apart from its
// status, and leaves what others have added.
func complete(p *v1alpha1.ClusterProfile, mc *clusterv1.ManagedCluster) {
	l := maps.Clone(p.Labels)
	if l == nil {
		l = map[string]string{}
	}
	l[multicluster.ClusterManagerLabel] = multicluster.ClusterManagerName
	l[cluster.NameLabel] = mc.Name
	delete(l, multicluster.ClusterSetLabel)
	if set := mc.Labels[cluster.ClusterSetLabel]; set != "" {
		l[multicluster.ClusterSetLabel] = set
	}
	p.Labels = l
	p.Spec.DisplayName = mc.Name
	if p.Spec.ClusterManager.Name == "" {
		p.Spec.ClusterManager.Name = multicluster.ClusterManagerName
	}
}

// report gives a profile the status of a cluster.
func report(s *v1alpha1.ClusterProfileStatus, mc *clusterv1.ManagedCluster) {
	s.Version.Kubernetes = mc.Status.Version.Kubernetes
	s.Properties = properties(mc.Status.ClusterClaims)
	for to, from := range map[string]string{
		multicluster.ConditionControlPlaneHealthy: cluster.ConditionAvailable,
		multicluster.ConditionJoined:              cluster.ConditionJoined,
	} {
		have := meta.FindStatusCondition(mc.Status.Conditions, from)
		if have == nil {
			meta.RemoveStatusCondition(&s.Conditions, to)
			continue
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: to, Status: have.Status, Reason: have.Reason, Message: have.Message})
	}
	// The order must not depend on that of the map.
	slices.SortFunc(s.Conditions, func(a, b metav1.Condition) int {
		if a.Type < b.Type {
			return -1
		}
		return 1
	})
}

// properties are the claims that a profile takes. A cluster's status may name a
// claim twice, and then the first one counts. It may leave out names and values;
// with one such claim the API refuses the whole status of the profile.
func properties(claims []clusterv1.ManagedClusterClaim) []v1alpha1.Property {
	var out []v1alpha1.Property
	seen := sets.Set[string]{}
	for _, c := range claims {
		if c.Name == "" || c.Value == "" || seen.Has(c.Name) {
			continue
		}
		seen.Insert(c.Name)
		out = append(out, v1alpha1.Property{Name: c.Name, Value: c.Value})
	}
	return out
}
