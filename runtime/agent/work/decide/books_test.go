package decide

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func named(name string) *manifest.Manifest {
	return &manifest.Manifest{Meta: workv1.ManifestResourceMeta{Version: "v1", Resource: "configmaps", Namespace: "n", Name: name}, Owned: true}
}

// Of the objects a (in the work), b (in the work, too) and c (which has left it).
func TestWhatIsWrittenDownAndWhatIsRemoved(t *testing.T) {
	exists := report.Outcome{Observed: report.Observed{Exists: true, UID: "1"}}
	for name, x := range map[string]struct {
		b        report.Outcome
		unowned  bool
		unread   bool // the manifest b
		reported bool // the work was applied before
		listed   string
		dropped  string
		ok       bool
	}{
		"all there":                      {b: exists, reported: true, listed: "a=1 b=1", dropped: "c=0", ok: true},
		"still to be made":               {reported: true, listed: "a=1 b=", dropped: "c=0", ok: true},
		"orphaned, still to be made":     {unowned: true, reported: true, listed: "a=1", dropped: "c=0", ok: true},
		"hidden":                         {b: report.Outcome{Observed: report.Observed{Hidden: true, Fetched: errors.New("no")}}, reported: true, listed: "a=1 b=0", dropped: "c=0", ok: true},
		"not read: nothing is removed":   {b: report.Outcome{Observed: report.Observed{Fetched: errors.New("no")}}, reported: true},
		"no manifest: nothing removed":   {unread: true, reported: true},
		"a work that is new for the hub": {b: exists, listed: "a=1 b=1 c=0", ok: true},
	} {
		mw := &workv1.ManifestWork{}
		if x.reported {
			mw.Status.Conditions = []metav1.Condition{{Type: work.ConditionApplied}}
		}
		a, b := named("a"), named("b")
		b.Owned = !x.unowned
		if x.unread {
			b.Err = errors.New("no")
		}
		before := []workv1.AppliedManifestResourceMeta{ResourceMeta(a, "0"), ResourceMeta(b, "0"), ResourceMeta(named("c"), "0")}
		got, ok := Bookkeep(mw, before, []*manifest.Manifest{a, b}, []report.Outcome{exists, x.b})
		if ok != x.ok || text(got.Listed) != x.listed || text(got.Dropped) != x.dropped {
			t.Errorf("%s: got %q, dropped %q (%v), want %q, %q (%v)", name, text(got.Listed), text(got.Dropped), ok, x.listed, x.dropped, x.ok)
		}
	}
}

func text(list []workv1.AppliedManifestResourceMeta) string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name+"="+r.UID)
	}
	return strings.Join(out, " ")
}

func TestOnlyNewObjectsOfTheWorkAreAnnounced(t *testing.T) {
	known, fresh, orphan, unread := named("known"), named("fresh"), named("orphan"), named("unread")
	orphan.Owned, unread.Err = false, errors.New("no")
	got := Announce([]*manifest.Manifest{known, fresh, orphan, unread}, []workv1.AppliedManifestResourceMeta{ResourceMeta(known, "0")})
	if len(got) != 1 || got[0] != fresh {
		t.Errorf("got %v, want the new one", got)
	}
}
