package work

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// An agent is prepared without a request, so that it starts while either side is
// out of reach.
func TestAnAgentIsPreparedWithoutRequests(t *testing.T) {
	nowhere := &rest.Config{Host: "https://192.0.2.1:1"} // no server has such an address
	a, err := newAgent(Options{ClusterName: "c1", HubHost: "https://hub.example.org", Hub: nowhere, ManagedCluster: nowhere})
	if err != nil {
		t.Fatal(err)
	}
	if a.agentID != a.hubHash || a.evictionGracePeriod != time.Hour || a.clock == nil || a.log == nil {
		t.Errorf("the defaults are not set: %+v", a)
	}
	if key := a.works.Request("w"); key.Namespace != "c1" || key.Name != "w" {
		t.Errorf("works are looked for as %s", key)
	}
	a.works.Add("w") // nothing to add to before the start
}

func TestWhatOthersChangeInAWorkIsNews(t *testing.T) {
	work := func(change func(*workv1.ManifestWork)) *workv1.ManifestWork {
		mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "2", Generation: 1, Labels: map[string]string{"a": "b"}, Finalizers: []string{"f"},
		}}
		change(mw)
		return mw
	}
	applied := func(generation int64) func(*workv1.ManifestWork) {
		return func(mw *workv1.ManifestWork) {
			mw.Status.Conditions = []metav1.Condition{{Type: "Applied", ObservedGeneration: generation}}
		}
	}
	before := work(func(mw *workv1.ManifestWork) { mw.ResourceVersion = "1" })
	now := metav1.Now()
	for name, x := range map[string]struct {
		after *workv1.ManifestWork
		want  bool
	}{
		"status":                       {work(applied(1)), false},
		"status of another generation": {work(applied(7)), true},
		"status that is gone": {work(func(mw *workv1.ManifestWork) {
			mw.Status.Conditions = []metav1.Condition{{Type: "Other"}}
		}), true},
		"annotations": {work(func(mw *workv1.ManifestWork) { mw.Annotations = map[string]string{"a": "b"} }), false},
		"spec":        {work(func(mw *workv1.ManifestWork) { mw.Generation = 2 }), true},
		"labels":      {work(func(mw *workv1.ManifestWork) { mw.Labels = nil }), true},
		"finalizers":  {work(func(mw *workv1.ManifestWork) { mw.Finalizers = nil }), true},
		"deletion":    {work(func(mw *workv1.ManifestWork) { mw.DeletionTimestamp = &now }), true},
		"restored":    {work(func(mw *workv1.ManifestWork) { mw.ResourceVersion = "0" }), true},
		"written again since": {work(func(mw *workv1.ManifestWork) {
			mw.ResourceVersion, mw.Spec.Workload.Manifests = "1000000001", []workv1.Manifest{{}}
		}), true},
		"resync": {work(func(mw *workv1.ManifestWork) { mw.ResourceVersion = "1" }), true},
	} {
		if got := workChanged(before, x.after); got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}
