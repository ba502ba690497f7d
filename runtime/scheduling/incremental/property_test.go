package incremental_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

// seedVariable is the environment variable that has a run repeated.
const seedVariable = "MUSTER_TEST_SEED"

func seed(t testing.TB) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv(seedVariable); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s is %q, which is not a number: %v", seedVariable, s, err)
		}
	}
	t.Logf("the seed is %d; %s=%d repeats this run", n, seedVariable, n)
	return n
}

func newHub(seed uint64, clusters, placements int, prefer bool) *hub {
	h := &hub{model: newModel(), dice: &dice{Rand: rand.New(rand.NewPCG(seed, 0)), size: clusters, wishes: placements}}
	h.options.PreferNoSelect = prefer
	h.engine = incremental.New(h.options)
	h.fill()
	return h
}

// decision is the part of a result that is written down.
func decision(r scheduling.Result) scheduling.Result {
	return scheduling.Result{Groups: r.Groups, Selected: r.Selected, Conditions: r.Conditions}
}

// reported is the part of a result that both algorithms have.
func reported(r scheduling.Result) scheduling.Result {
	d := decision(r)
	d.RequeueAfter, d.Misconfigured, d.Warning = r.RequeueAfter, r.Misconfigured, r.Warning
	return d
}

// show makes values readable.
func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// remembered is what was concluded when a placement was last scheduled.
type remembered struct {
	result  scheduling.Result
	now     time.Time
	decided int
	spec    *clusterv1beta1.PlacementSpec
}

// mustAgree compares the engine's result with the plain algorithm's.
func (h *hub) mustAgree(t *testing.T, key types.NamespacedName, after string) remembered {
	t.Helper()
	p := h.placements[key]
	got, ok := h.engine.Schedule(key, h.now)
	if ok != (p != nil) {
		t.Fatalf("after %s: the engine knows of %s: %v", after, key, ok)
	}
	if p == nil {
		return remembered{}
	}
	in := h.input(p)
	want := h.decideOn(in)
	if w, g := reported(want), reported(got.Result); !apiequality.Semantic.DeepEqual(w, g) {
		t.Fatalf("after %s: %s with %s:\nplain       %s\nincremental %s", after, key, show(p.Spec), show(w), show(g))
	}
	if got.Placement != p || !slices.Equal(got.Present, h.present(p)) {
		t.Fatalf("after %s: the engine has another placement %s or other decisions of it", after, key)
	}
	if steps := want.Filters; len(steps) == 2 {
		funnel := incremental.Funnel{Available: len(in.Clusters), Matching: len(steps[0].Clusters), Tolerated: len(steps[1].Clusters)}
		if got.Funnel != funnel {
			t.Fatalf("after %s: %s has the funnel %+v, want %+v", after, key, got.Funnel, funnel)
		}
	}
	totals := map[string]int64{}
	for _, x := range h.engine.Totals(key, len(h.clusters)) {
		totals[x.Cluster] = x.Total
	}
	for name, n := range want.Total {
		if totals[name] != n {
			t.Fatalf("after %s: %s: %s has %d in total, want %d", after, key, name, totals[name], n)
		}
	}
	return remembered{result: decision(want), now: h.now, decided: h.decided, spec: &p.Spec}
}

// mayDiffer reports whether a placement that nobody said to be concerned may
// have another result all the same: decisions of others change nothing until
// the next scheduling, and what expires is a matter of timers.
func (r remembered) mayDiffer(h *hub) bool {
	if r.spec == nil {
		return true
	}
	c := scheduling.Compile(&clusterv1beta1.Placement{Spec: *r.spec}, h.options)
	if r.decided != h.decided && slices.ContainsFunc(c.Prioritizers(), func(p scheduling.Prioritizer) bool { return p.Kind == scheduling.Balance }) {
		return true
	}
	return !r.now.Equal(h.now) && (slices.ContainsFunc(r.spec.Tolerations, func(x clusterv1beta1.Toleration) bool { return x.TolerationSeconds != nil }) ||
		slices.ContainsFunc(c.Prioritizers(), func(p scheduling.Prioritizer) bool { return p.Kind == scheduling.AddOn }))
}

// mustStand finds out that the result from before still holds.
func (h *hub) mustStand(t *testing.T, key types.NamespacedName, before remembered, after string) {
	t.Helper()
	p := h.placements[key]
	if is := decision(h.schedule(p)); !apiequality.Semantic.DeepEqual(is, before.result) {
		t.Fatalf("after %s: %s with %s was not said to be concerned:\nnow    %s\nbefore %s", after, key, show(p.Spec), show(is), show(before.result))
	}
}

// Whatever happens to a fleet, the engine gives the results of the plain
// algorithm, for those that it says are concerned and for the others.
func TestIncrementalIsPlain(t *testing.T) {
	for _, x := range []struct {
		clusters, placements, changes int
		prefer                        bool
	}{
		{40, 1000, 300, false},
		{12, 60, 1500, true},  // few, so that every corner is turned often
		{300, 40, 250, false}, // more than rankings hold
	} {
		if testing.Short() { // with the race detector
			x.placements, x.changes = x.placements/4, x.changes/10
		}
		t.Run(fmt.Sprintf("%d clusters, %d placements, %d changes", x.clusters, x.placements, x.changes), func(t *testing.T) {
			h := newHub(seed(t), x.clusters, x.placements, x.prefer)
			last := map[types.NamespacedName]remembered{}
			for key := range h.placements {
				last[key] = h.mustAgree(t, key, "the start")
			}
			var concerned, stood int
			for i := range x.changes {
				what, keys := h.change()
				after := fmt.Sprintf("change %d, %s", i, what)
				for _, key := range keys {
					last[key] = h.mustAgree(t, key, after)
					concerned++
				}
				for range 10 {
					key := h.placementKey()
					if h.placements[key] == nil {
						continue
					}
					if before := last[key]; !before.mayDiffer(h) {
						h.mustStand(t, key, before, after)
						stood++
					}
					if h.one(2) {
						last[key] = h.mustAgree(t, key, after)
					}
				}
			}
			for _, key := range slices.SortedFunc(maps.Keys(h.placements), compareKeys) {
				h.mustAgree(t, key, "the end")
			}
			t.Logf("%d times a placement was concerned, %d times the result of another stood", concerned, stood)
			if stood < x.changes {
				t.Errorf("only %d results were found to stand", stood)
			}
		})
	}
}
