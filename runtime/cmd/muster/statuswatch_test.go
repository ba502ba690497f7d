package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
)

func available(name string, is metav1.ConditionStatus) *clusterv1.ManagedCluster {
	m := member(name, 1, "", is)
	accepts := true
	m.Spec.HubAcceptsClient, m.Labels = &accepts, map[string]string{cluster.ClusterSetLabel: "prod"}
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: cluster.ConditionHubAccepted,
		Status: metav1.ConditionTrue})
	return m
}

func TestStatusShowsTroubleFirstAndNotAll(t *testing.T) {
	b := fake.NewClientBuilder().WithScheme(api.Scheme()).WithObjects(
		&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}, available("zurich",
			metav1.ConditionUnknown))
	for i := range 14 {
		b.WithObjects(available(fmt.Sprintf("c%02d", i), metav1.ConditionTrue),
			&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "zurich", Name: fmt.Sprintf("w%02d", i)}})
	}
	s, err := readFleet(t.Context(), b.Build())
	if err != nil {
		t.Fatal(err)
	}
	var some, all bytes.Buffer
	if err := s.print(&some, rowsShown(false)); err != nil {
		t.Fatal(err)
	}
	if err := s.print(&all, rowsShown(true)); err != nil {
		t.Fatal(err)
	}
	said := squeezed(some.String())
	for _, want := range []string{
		"SET CLUSTERS AVAILABLE\nprod 15 14\n", "ADDONS\nzurich prod true True Unknown", "c08 prod true",
		"and 5 more clusters: --all shows them\n",
		"and 4 more works, 4 of them not in order: --all shows them\n", "why, and what to do next: muster explain " +
			"cluster zurich\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "c09") || !strings.Contains(all.String(), "c13") || strings.Contains(all.String(),
		"more") {
		t.Errorf("it says\n%s\nand of all\n%s", said, all.String())
	}
}

// TestStatusReadsPages counts how many objects are asked for at a time.
func TestStatusReadsPages(t *testing.T) {
	b := fake.NewClientBuilder().WithScheme(api.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			o := client.ListOptions{}
			o.ApplyOptions(options)
			if o.Limit == 0 {
				t.Errorf("%T are listed at once", list)
			}
			if err := c.List(ctx, list); err != nil {
				return err
			}
			if clusters, ok := list.(*clusterv1.ManagedClusterList); ok && o.Continue == "" { // two pages of one
				clusters.Items, clusters.Continue = clusters.Items[:1], "next"
			} else if ok {
				clusters.Items, clusters.Continue = clusters.Items[1:], ""
			}
			return nil
		},
	}).WithObjects(available("a", metav1.ConditionTrue), available("b", metav1.ConditionUnknown))
	s, err := readFleet(t.Context(), b.Build())
	if err != nil || len(s.Clusters) != 2 || s.Clusters[0].Name != "a" || s.Clusters[1].Level != explain.Problem {
		t.Errorf("%v, read %+v", err, s)
	}
}

func TestDisplayAddsALineForEachChange(t *testing.T) {
	now := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	fleetOf := func(clusters ...*clusterv1.ManagedCluster) *fleetStatus {
		b := fake.NewClientBuilder().WithScheme(api.Scheme())
		for _, m := range clusters {
			b.WithObjects(m)
		}
		s, err := readFleet(t.Context(), b.Build())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var out bytes.Buffer
	d := display{out: &out}
	for _, s := range []*fleetStatus{
		fleetOf(available("a", metav1.ConditionTrue)),
		fleetOf(available("a", metav1.ConditionTrue)),
		fleetOf(available("a", metav1.ConditionUnknown), available("b", metav1.ConditionTrue)),
		fleetOf(available("b", metav1.ConditionTrue)),
	} {
		if err := d.show(s, now); err != nil {
			t.Fatal(err)
		}
	}
	d.problem = "no answer"
	for range 2 {
		if err := d.show(fleetOf(available("b", metav1.ConditionTrue)), now); err != nil {
			t.Fatal(err)
		}
	}
	_, said, _ := strings.Cut(out.String(), "\n2026-11-23T20:00:00Z a has been unreachable")
	const want = ` since 0001-01-01T00:00:00Z: the hub does not hear from its agent.
2026-11-23T20:00:00Z b is available.
2026-11-23T20:00:00Z The cluster a is gone.
2026-11-23T20:00:00Z no answer
`
	if said != want || strings.ContainsRune(out.String(), '\x1b') {
		t.Errorf("it says\n%s", out.String())
	}
}

func TestDisplayDrawsATerminalAgain(t *testing.T) {
	var out bytes.Buffer
	d := display{out: &out, terminal: true, height: func() int { return 5 }}
	s := &fleetStatus{Clusters: []clusterStatus{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	for range 2 {
		if err := d.show(s, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "\x1b[H\x1b[2JCLUSTER"); n != 2 || strings.Count(out.String(), "\n") != 8 ||
		!strings.Contains(out.String(), "more lines, for which the terminal is too small") {
		t.Errorf("drawn %d times:\n%q", n, out.String())
	}
}
