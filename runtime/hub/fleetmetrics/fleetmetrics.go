// Package fleetmetrics counts the objects of a fleet by their state, for Prometheus. It
// counts when it is asked, from what the controllers have in memory: no request, no object
// copied, and nothing to do at all where nobody asks.
//
// Only the replica that runs the controllers reports, so a sum over replicas is right.
package fleetmetrics

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// kind is what is counted. An object has one of the states.
type kind struct {
	metric, help string
	object       client.Object
	gate         featuregate.Feature // without it the kind is not watched; "" is always
	states       []string
	state        func(o any) string
}

// kinds are those that are counted. The order of the states is that in which they win.
var kinds = []kind{
	{
		"muster_fleet_clusters", "Managed clusters by their state.", &clusterv1.ManagedCluster{}, "",
		[]string{"deleting", "denied", "pending", "joining", "available", "unavailable", "unknown"},
		func(o any) string { return clusterState(o.(*clusterv1.ManagedCluster)) },
	},
	{
		"muster_fleet_works", "ManifestWorks by their state.", &workv1.ManifestWork{}, "",
		[]string{"deleting", "pending", "failed", "unavailable", "applied"},
		func(o any) string { return workState(o.(*workv1.ManifestWork)) },
	},
	{
		"muster_fleet_addons", "Add-ons in clusters by their state.", &addonv1alpha1.ManagedClusterAddOn{},
		features.AddonManagement, []string{"deleting", "available", "unavailable", "unknown"},
		func(o any) string {
			a := o.(*addonv1alpha1.ManagedClusterAddOn)
			return available(a, a.Status.Conditions, addon.ConditionAvailable)
		},
	},
	{
		"muster_fleet_placements", "Placements by their state.", &clusterv1beta1.Placement{}, "",
		[]string{"misconfigured", "satisfied", "unsatisfied"},
		func(o any) string { return placementState(o.(*clusterv1beta1.Placement)) },
	},
	{
		"muster_fleet_rollouts", "Replica sets by the state of their rollout.", &workv1alpha1.ManifestWorkReplicaSet{},
		features.ManifestWorkReplicaSet, []string{"degraded", "complete", "progressing"},
		func(o any) string { return rolloutState(o.(*workv1alpha1.ManifestWorkReplicaSet)) },
	},
	{
		"muster_fleet_certificate_requests", "Certificate requests of clusters and their add-ons by their state.",
		&certificatesv1.CertificateSigningRequest{}, "", []string{"refused", "approved", "pending"},
		func(o any) string { return requestState(o.(*certificatesv1.CertificateSigningRequest)) },
	},
}

func clusterState(c *clusterv1.ManagedCluster) string {
	accepted := meta.FindStatusCondition(c.Status.Conditions, cluster.ConditionHubAccepted)
	switch {
	case !c.DeletionTimestamp.IsZero():
		return "deleting"
	case !c.Spec.AcceptsClient() && accepted != nil && accepted.Reason == cluster.ReasonHubDenied:
		return "denied"
	case !c.Spec.AcceptsClient():
		return "pending"
	case !meta.IsStatusConditionTrue(c.Status.Conditions, cluster.ConditionJoined):
		return "joining"
	}
	return available(c, c.Status.Conditions, cluster.ConditionAvailable)
}

// available is the state of what has a condition that says so.
func available(o client.Object, conditions []metav1.Condition, condition string) string {
	if !o.GetDeletionTimestamp().IsZero() {
		return "deleting"
	}
	c := meta.FindStatusCondition(conditions, condition)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return "unknown"
	case c.Status == metav1.ConditionTrue:
		return "available"
	}
	return "unavailable"
}

func workState(w *workv1.ManifestWork) string {
	applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
	switch {
	case !w.DeletionTimestamp.IsZero():
		return "deleting"
	case applied == nil || applied.ObservedGeneration < w.Generation || applied.Status == metav1.ConditionUnknown:
		return "pending"
	case applied.Status == metav1.ConditionFalse:
		return "failed"
	case meta.IsStatusConditionFalse(w.Status.Conditions, work.ConditionAvailable):
		return "unavailable"
	}
	return "applied"
}

func placementState(p *clusterv1beta1.Placement) string {
	switch {
	case meta.IsStatusConditionTrue(p.Status.Conditions, cluster.ConditionPlacementMisconfigured):
		return "misconfigured"
	case meta.IsStatusConditionTrue(p.Status.Conditions, cluster.ConditionPlacementSatisfied):
		return "satisfied"
	}
	return "unsatisfied"
}

func rolloutState(r *workv1alpha1.ManifestWorkReplicaSet) string {
	switch {
	case r.Status.Summary.Degraded > 0:
		return "degraded"
	case meta.IsStatusConditionTrue(r.Status.Conditions, work.ConditionPlacementRolledOut):
		return "complete"
	}
	return "progressing"
}

func requestState(r *certificatesv1.CertificateSigningRequest) string {
	state := "pending"
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return "refused"
		case certificatesv1.CertificateApproved:
			state = "approved"
		}
	}
	return state
}

// reporting is held by the one hub of a process that reports: tests have several.
var reporting sync.Mutex

// Reporter reports as long as it runs. It implements manager.Runnable.
type Reporter struct {
	Cache    cache.Cache
	Features featuregate.FeatureGate
}

// Start reports until ctx ends.
func (r *Reporter) Start(ctx context.Context) error {
	c := collector{}
	for _, k := range kinds {
		if k.gate != "" && !r.Features.Enabled(k.gate) {
			continue
		}
		informer, err := r.Cache.GetInformer(ctx, k.object)
		if err != nil {
			return fmt.Errorf("count for %s: %w", k.metric, err)
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return fmt.Errorf("count for %s: the cache has a %T", k.metric, informer)
		}
		c = append(c, counted{k, prometheus.NewDesc(k.metric, k.help, []string{"state"}, nil), shared.GetIndexer()})
	}
	if !reporting.TryLock() {
		<-ctx.Done()
		return nil
	}
	defer reporting.Unlock()
	if err := metrics.Registry.Register(c); err != nil {
		return fmt.Errorf("report the fleet's metrics: %w", err)
	}
	defer metrics.Registry.Unregister(c)
	<-ctx.Done()
	return nil
}

// counted is a kind with where its objects are.
type counted struct {
	kind
	desc  *prometheus.Desc
	store toolscache.Store
}

// collector implements prometheus.Collector.
type collector []counted

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, k := range c {
		out <- k.desc
	}
}

// Collect implements prometheus.Collector. Each state is reported, so that a count comes to 0
// and does not just end.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, k := range c {
		counts := map[string]int{}
		for _, o := range k.store.List() {
			counts[k.state(o)]++
		}
		for _, state := range k.states {
			out <- prometheus.MustNewConstMetric(k.desc, prometheus.GaugeValue, float64(counts[state]), state)
		}
	}
}
