package access_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// writesPerRequest are those of the controller from a request to its certificate:
// the approval, the credential, the note that the agent is asked, and the answer.
const writesPerRequest = 4

// give takes requests for access to all clusters of a world to their certificates.
func give(w *requestWorld, clusters []string, perCluster int) {
	w.Helper()
	all := map[string][]*asked{}
	for _, c := range clusters {
		for range perCluster {
			all[c] = append(all[c], w.ask(c))
		}
	}
	w.until(len(clusters)*perCluster, muster.ConditionApproved)
	for c, requests := range all {
		keys := make([]string, 0, len(requests))
		for _, a := range requests {
			keys = append(keys, a.hash)
		}
		w.bind(c, true, keys...)
	}
	for _, requests := range all {
		for _, a := range requests {
			a.becomes("Issued=False/WaitingForAgent")
			a.answer(func(s *v1alpha1.ClusterCredentialStatus) { s.Certificate = a.sign() })
		}
	}
	w.until(len(clusters)*perCluster, muster.ConditionIssued)
}

// until waits until a condition is True of so many requests.
func (w *requestWorld) until(want int, kind string) {
	w.Helper()
	w.Eventually(func() error {
		list := &v1alpha1.AccessRequestList{}
		if err := w.List(context.Background(), list, client.InNamespace(w.name)); err != nil {
			return err
		}
		n := 0
		for i := range list.Items {
			if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, kind) {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%s is True of %d requests, want %d", kind, n, want)
		}
		return nil
	})
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, "c"+strconv.Itoa(i))
	}
	return names
}

// What a request costs does not depend on how many others there are.
func TestCostOfARequest(t *testing.T) {
	for _, x := range []struct{ clusters, perCluster int }{{1, 2}, {5, 8}} {
		clusters := numbered(x.clusters)
		w := newRequestWorld(t, clusters...)
		n := w.writes.During(func() { give(w, clusters, x.perCluster) })
		want := int64(x.clusters * x.perCluster * writesPerRequest)
		t.Logf("%d requests: %d writes", x.clusters*x.perCluster, n)
		// Some are refused as a conflict, when the cache has yet to hear of the last one.
		if limit := want + want/4; n > limit {
			t.Errorf("%d requests for each of %d clusters: %d writes, want %d", x.perCluster, x.clusters, n, want)
		}
	}
}

// BenchmarkThousandRequests is about 1,000 requests for 100 clusters.
func BenchmarkThousandRequests(b *testing.B) {
	clusters := numbered(100)
	for range b.N {
		w := newRequestWorld(b, clusters...)
		n := w.writes.During(func() { give(w, clusters, 10) })
		b.ReportMetric(float64(n)/1000, "writes/request")
	}
}
