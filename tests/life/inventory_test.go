package life

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// inventory lists every object that a server has, of every kind that it serves.
// Events are left out: they go by themselves after an hour.
func inventory(t testing.TB, config *rest.Config) []string {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	testkit.Must(t, err)
	lists, err := d.ServerPreferredResources()
	testkit.Must(t, err)
	objects, err := metadata.NewForConfig(config)
	testkit.Must(t, err)
	var all []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		testkit.Must(t, err)
		for _, r := range list.APIResources {
			if r.Name == "events" || !slices.Contains(r.Verbs, "list") {
				continue
			}
			found, err := objects.Resource(version.WithResource(r.Name)).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s %s: %v", list.GroupVersion, r.Name, err)
			}
			for _, o := range found.Items {
				all = append(all, strings.TrimPrefix(version.Group+"/", "/")+r.Name+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// added are the entries of now that before has not.
func added(before, now []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(s string) bool {
		_, found := slices.BinarySearch(before, s)
		return found
	})
}

// expectAdded waits until a server has what it had before, and beyond that only
// what is wanted.
func expectAdded(t testing.TB, m *member, where string, config *rest.Config, before map[string][]string, want []string) {
	t.Helper()
	m.until(func() error {
		now := inventory(t, config)
		if got := added(before[where], now); !slices.Equal(got, want) {
			return fmt.Errorf("left on %s:\n  %s\nwant:\n  %s", where, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		if lost := added(now, before[where]); len(lost) > 0 {
			return fmt.Errorf("gone from %s:\n  %s", where, strings.Join(lost, "\n  "))
		}
		return nil
	})
	t.Logf("%s has %d objects, as before, and %q", where, len(before[where]), want)
}
