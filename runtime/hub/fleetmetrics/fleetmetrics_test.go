package fleetmetrics

import (
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

func conditions(all ...string) []metav1.Condition {
	var list []metav1.Condition
	for i := 0; i < len(all); i += 2 {
		list = append(
			list,
			metav1.Condition{Type: all[i], Status: metav1.ConditionStatus(all[i+1]), ObservedGeneration: 1},
		)
	}
	return list
}

// Each object has the state that somebody who looks at it would name, and one that is listed.
func TestStates(t *testing.T) {
	at := metav1.ObjectMeta{Generation: 1}
	gone := metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.Now())}
	managed := func(accepted *bool, all ...string) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{
			ObjectMeta: at, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: accepted},
			Status: clusterv1.ManagedClusterStatus{Conditions: conditions(all...)},
		}
	}
	denied := managed(nil, cluster.ConditionHubAccepted, "False")
	denied.Status.Conditions[0].Reason = cluster.ReasonHubDenied
	manifests := func(all ...string) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: at, Status: workv1.ManifestWorkStatus{Conditions: conditions(all...)}}
	}
	changed := manifests(work.ConditionApplied, "True")
	changed.Generation = 2
	addOn := func(all ...string) *addonv1alpha1.ManagedClusterAddOn {
		return &addonv1alpha1.ManagedClusterAddOn{
			Status: addonv1alpha1.ManagedClusterAddOnStatus{Conditions: conditions(all...)},
		}
	}
	placement := func(all ...string) *clusterv1beta1.Placement {
		return &clusterv1beta1.Placement{Status: clusterv1beta1.PlacementStatus{Conditions: conditions(all...)}}
	}
	rollout := func(degraded int, all ...string) *workv1alpha1.ManifestWorkReplicaSet {
		r := &workv1alpha1.ManifestWorkReplicaSet{}
		r.Status.Summary.Degraded, r.Status.Conditions = degraded, conditions(all...)
		return r
	}
	request := func(types ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
		r := &certificatesv1.CertificateSigningRequest{}
		for _, x := range types {
			r.Status.Conditions = append(
				r.Status.Conditions,
				certificatesv1.CertificateSigningRequestCondition{Type: x},
			)
		}
		return r
	}
	const joined, here = cluster.ConditionJoined, cluster.ConditionAvailable
	const approved = certificatesv1.CertificateApproved
	yes := ptr.To(true)
	for metric, objects := range map[string]map[string][]client.Object{
		"muster_fleet_clusters": {
			"deleting": {&clusterv1.ManagedCluster{ObjectMeta: gone}}, "denied": {denied}, "pending": {managed(nil)},
			"joining": {managed(yes)}, "available": {managed(yes, joined, "True", here, "True")},
			"unavailable": {managed(yes, joined, "True", here, "False")},
			"unknown":     {managed(yes, joined, "True", here, "Unknown"), managed(yes, joined, "True")},
		},
		"muster_fleet_works": {
			"deleting": {&workv1.ManifestWork{ObjectMeta: gone}}, "pending": {manifests(), changed},
			"failed":      {manifests(work.ConditionApplied, "False", work.ConditionAvailable, "False")},
			"unavailable": {manifests(work.ConditionApplied, "True", work.ConditionAvailable, "False")},
			"applied":     {manifests(work.ConditionApplied, "True")},
		},
		"muster_fleet_addons": {
			"deleting":  {&addonv1alpha1.ManagedClusterAddOn{ObjectMeta: gone}},
			"available": {addOn("Available", "True")}, "unavailable": {addOn("Available", "False")},
			"unknown": {addOn()},
		},
		"muster_fleet_placements": {
			"misconfigured": {placement(cluster.ConditionPlacementMisconfigured, "True")},
			"satisfied":     {placement(cluster.ConditionPlacementSatisfied, "True")}, "unsatisfied": {placement()},
		},
		"muster_fleet_rollouts": {
			"degraded": {rollout(1, work.ConditionPlacementRolledOut, "False")},
			"complete": {rollout(0, work.ConditionPlacementRolledOut, "True")}, "progressing": {rollout(0)},
		},
		"muster_fleet_certificate_requests": {
			"refused": {
				request(approved, certificatesv1.CertificateFailed), request(certificatesv1.CertificateDenied),
			},
			"approved": {request(approved)}, "pending": {request()},
		},
	} {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.metric == metric })
		if len(objects) != len(kinds[i].states) {
			t.Errorf("%s has the states %v, and %d are tested", metric, kinds[i].states, len(objects))
		}
		for want, all := range objects {
			for _, o := range all {
				if got := kinds[i].state(o); got != want || !slices.Contains(kinds[i].states, got) {
					t.Errorf("%s: %s, want %s", metric, got, want)
				}
			}
		}
	}
}

func BenchmarkCount(b *testing.B) {
	w := &workv1.ManifestWork{Status: workv1.ManifestWorkStatus{
		Conditions: conditions(work.ConditionApplied, "True", work.ConditionAvailable, "True"),
	}}
	for b.Loop() {
		for range 100_000 {
			_ = workState(w)
		}
	}
}
