package clusterset

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func selects(t testing.TB, s string) labels.Selector {
	t.Helper()
	selector, err := labels.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

// Whatever comes, goes and is relabelled: the count is that of a look at all
// clusters, and exactly the sets whose count has changed are told.
func TestCountsFollowChanges(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	m := NewMembers()
	clusters := map[string]labels.Set{}
	choices := []string{"", "env=prod", "env in (prod,dev)", "env!=prod", "!env", "zone=a,env"}
	sets := map[string]labels.Selector{}
	plain := func(selector labels.Selector) (number int) {
		for _, l := range clusters {
			if selector.Matches(l) {
				number++
			}
		}
		return number
	}
	for step := range 20000 {
		before := map[string]int{}
		for name, selector := range sets {
			before[name] = plain(selector)
		}
		var reported []string
		switch cluster := fmt.Sprint("c", r.Intn(20)); r.Intn(8) {
		case 0:
			delete(clusters, cluster)
			reported = m.gone(cluster)
		case 1:
			set := fmt.Sprint("s", r.Intn(6))
			sets[set] = selects(t, choices[r.Intn(len(choices))])
			before[set] = plain(sets[set])
			m.count(set, sets[set])
		case 2:
			set := fmt.Sprint("s", r.Intn(6))
			delete(sets, set)
			delete(before, set)
			m.forget(set)
		default:
			l := labels.Set{}
			if r.Intn(3) > 0 {
				l["env"] = []string{"prod", "dev", "test"}[r.Intn(3)]
			}
			if r.Intn(2) > 0 {
				l["zone"] = []string{"a", "b"}[r.Intn(2)]
			}
			clusters[cluster] = l
			reported = m.labelled(cluster, l)
		}
		var changed []string
		for name, selector := range sets {
			now := plain(selector)
			if got := m.count(name, selector); got != now {
				t.Fatalf("step %d: %s has %d members, want %d", step, name, got, now)
			}
			if now != before[name] {
				changed = append(changed, name)
			}
		}
		slices.Sort(reported)
		slices.Sort(changed)
		if !slices.Equal(reported, changed) {
			t.Fatalf("step %d: told %v, changed are %v", step, reported, changed)
		}
	}
}

// A change of a label of one of 10,000 clusters, with 50 sets.
func BenchmarkRelabelled(b *testing.B) {
	m := NewMembers()
	for i := range 10000 {
		m.labelled(fmt.Sprint("c", i), labels.Set{"zone": fmt.Sprint(i % 50)})
	}
	for i := range 50 {
		m.count(fmt.Sprint("s", i), selects(b, fmt.Sprint("zone=", i)))
	}
	for i := 0; b.Loop(); i++ {
		m.labelled("c7", labels.Set{"zone": fmt.Sprint(i % 50)})
	}
}
