package work

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func configMap(name string) *manifest.Manifest {
	return &manifest.Manifest{
		GVR:   schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Meta:  workv1.ManifestResourceMeta{Version: "v1", Resource: "configmaps", Namespace: "n", Name: name},
		Owned: true,
	}
}

// Of the objects a (in the work), b (in the work, too) and c (which has left it).
func TestWhatIsListedAndWhatIsRemoved(t *testing.T) {
	exists := report.Observed{Exists: true, UID: "1"}
	for name, x := range map[string]struct {
		b       report.Observed
		unowned bool
		unread  bool // the manifest b
		unknown bool // the work was not applied before
		listed  string
		dropped string
		ok      bool
	}{
		"all there":                  {b: exists, listed: "a=1 b=1", dropped: "c=0", ok: true},
		"still to be made":           {listed: "a=1 b=", dropped: "c=0", ok: true},
		"orphaned, still to be made": {unowned: true, listed: "a=1", dropped: "c=0", ok: true},
		"hidden": {
			b:      report.Observed{Hidden: true, Fetched: errors.New("no")},
			listed: "a=1 b=0", dropped: "c=0", ok: true,
		},
		"not read: nothing is removed":   {b: report.Observed{Fetched: errors.New("no")}},
		"no manifest: nothing removed":   {unread: true},
		"a work that is new for the hub": {b: exists, unknown: true, listed: "a=1 b=1 c=0", ok: true},
	} {
		mw := &workv1.ManifestWork{}
		if !x.unknown {
			mw.Status.Conditions = []metav1.Condition{{Type: apiwork.ConditionApplied}}
		}
		a, b := configMap("a"), configMap("b")
		b.Owned = !x.unowned
		if x.unread {
			b.Err = errors.New("no")
		}
		plan := decide.Work(decide.Input{
			Work: mw, Manifests: []*manifest.Manifest{a, b},
			Listed: []workv1.AppliedManifestResourceMeta{
				decide.ResourceMeta(a, "0"), decide.ResourceMeta(b, "0"), decide.ResourceMeta(configMap("c"), "0"),
			},
		})
		listed, ok := listing(plan, []decide.Result{{Observed: exists}, {Observed: x.b}})
		if ok != x.ok || names(listed) != x.listed || ok && names(plan.Dropped) != x.dropped {
			t.Errorf("%s: got %q, dropped %q (%v), want %q, %q (%v)",
				name, names(listed), names(plan.Dropped), ok, x.listed, x.dropped, x.ok)
		}
	}
}

func names(list []workv1.AppliedManifestResourceMeta) string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name+"="+r.UID)
	}
	return strings.Join(out, " ")
}

func TestWorksGetAnotherPassWhenThereIsAReason(t *testing.T) {
	const resync = 5 * time.Minute
	for name, x := range map[string]struct {
		result decide.Result
		want   time.Duration
	}{
		"all well":          {decide.Result{}, resync},
		"a correction":      {decide.Result{Applied: decide.Applied{Paused: 4 * time.Second}}, 4 * time.Second},
		"rules that wait":   {decide.Result{Observed: report.Observed{Waits: 10 * time.Second}}, 10 * time.Second},
		"pods":              {decide.Result{Observed: report.Observed{PodsAgain: 10 * time.Second}}, 10 * time.Second},
		"a denied executor": {decide.Result{Applied: decide.Applied{Err: manifest.Denied("no")}}, time.Minute},
		"a hidden object":   {decide.Result{Observed: report.Observed{Hidden: true}}, time.Minute},
		"a conflict":        {decide.Result{Applied: decide.Applied{Err: manifest.Conflict(errors.New("no"))}}, resync},
	} {
		if got := requeueAfter(resync, []decide.Result{{}, x.result}); got != x.want {
			t.Errorf("%s: got %s, want %s", name, got, x.want)
		}
	}
}
