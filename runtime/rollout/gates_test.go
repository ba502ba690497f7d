package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

func TestGatesAreRead(t *testing.T) {
	for name, x := range map[string]struct {
		key, text, want string
	}{
		"none":        {muster.RolloutGatesAnnotation, "", ""},
		"an approval": {muster.RolloutGatesAnnotation, `[{"group":"production"},{"group":"*"}]`, ""},
		"a window":    {muster.RolloutGatesAnnotation, window(`"days":["Sat"],"from":"22:00","to":"04:00"`), ""},
		"no list":     {muster.RolloutGatesAnnotation, "production", "write it as in"},
		"a typo":      {muster.RolloutGatesAnnotation, `[{"groups":"production"}]`, `unknown field "groups"`},
		"two values":  {muster.RolloutGatesAnnotation, `[] []`, "more than one value"},
		"no group":    {muster.RolloutGatesAnnotation, `[{"group":" "}]`, "group is missing"},
		"twice": {muster.RolloutGatesAnnotation, `[{"group":"a"},{"group":"a"}]`,
			`gate 1, group "a": another gate`},
		"a day":  {muster.RolloutGatesAnnotation, window(`"days":["sat"],"from":"22:00","to":"04:00"`), `"sat"`},
		"a time": {muster.RolloutGatesAnnotation, window(`"from":"22h","to":"04:00"`), `window.from is "22h"`},
		"no end": {muster.RolloutGatesAnnotation, window(`"from":"22:00"`), `window.to is ""`},
		"a zone": {muster.RolloutGatesAnnotation, window(`"from":"22:00","to":"04:00","timeZone":"Berlin"`),
			`"Berlin"`},
		"the hub's": {muster.RolloutGatesAnnotation, window(`"from":"22:00","to":"04:00","timeZone":"Local"`),
			`"Local"`},
		"too many": {muster.RolloutGatesAnnotation, "[" + strings.Repeat(`{"group":"a"},`, 20) + `{"group":"b"}]`,
			"21 gates"},
		"a pause":      {muster.RolloutPausedAnnotation, "true", ""},
		"half a pause": {muster.RolloutPausedAnnotation, "yes", `is "yes": write true or false`},
		"approvals":    {muster.RolloutApprovalsAnnotation, "{", "which the hub writes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadGates(map[string]string{x.key: x.text})
			if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want) ||
				!strings.Contains(err.Error(), x.key)) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
}

func window(of string) string { return `[{"group":"production","window":{` + of + `}}]` }

// Nothing is handed out behind a gate that is closed, whatever the strategy, and what is in
// front of it goes on.
func TestGatesHoldBack(t *testing.T) {
	groups := []Group{
		{
			Index:    1,
			Name:     "production",
			Clusters: []string{"p1", "p2"},
		}, {Index: 0, Name: "canary", Clusters: []string{"c1"}},
		{Index: 2, Clusters: []string{"r1"}},
	}
	// It is a Friday, 12:00 UTC.
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	approved := func(group, content string) string {
		return Gated{}.Approve(Approval{Group: group, Content: content, By: "jo", At: noon})
	}
	const before = `[{"group":"production"}]`
	for name, x := range map[string]struct {
		gates, approvals, paused string
		have                     []string
		want                     []string
		hold                     string
		recheck                  time.Duration
	}{
		"no gates": {want: []string{"c1", "p1", "p2", "r1"}},
		"a gate":   {gates: before, want: []string{"c1"}, hold: "production AwaitingApproval 3"},
		"an approval": {gates: before, approvals: approved("production", "v1"), want: []string{"c1",
			"p1", "p2", "r1"}},
		"one of other content": {gates: before, approvals: approved("production", "v0"), want: []string{"c1"},
			hold: "production AwaitingApproval 3"},
		"one of another group": {gates: before, approvals: approved("canary", "v1"), want: []string{"c1"},
			hold: "production AwaitingApproval 3"},
		"one of all groups": {gates: before, approvals: approved("*", "v1"), want: []string{"c1", "p1", "p2",
			"r1"}},
		"before every group": {gates: `[{"group":"*"}]`, want: []string{"c1"},
			hold: "production AwaitingApproval 3"},
		"the next of them": {gates: `[{"group":"*"}]`, approvals: approved("production", "v1"),
			want: []string{"c1", "p1", "p2"}, hold: "2 AwaitingApproval 1"},
		"a group without a name": {gates: `[{"group":"2"}]`, want: []string{"c1", "p1", "p2"},
			hold: "2 AwaitingApproval 1"},
		"before the first":          {gates: `[{"group":"canary"}]`, hold: "canary AwaitingApproval 4"},
		"a group that is not there": {gates: `[{"group":"gone"}]`, want: []string{"c1", "p1", "p2", "r1"}},
		"those that have it keep it": {gates: before, have: []string{"p1", "p2", "r1"}, want: []string{"c1", "p1",
			"p2", "r1"}},
		"paused": {paused: "true", hold: " Paused 4"},
		"paused and done": {paused: "true", have: []string{"c1", "p1", "p2", "r1"}, want: []string{"c1",
			"p1", "p2", "r1"}},
		"a window that is open": {gates: window(`"days":["Fri"],"from":"08:00","to":"13:30"`),
			want: []string{"c1", "p1", "p2", "r1"}, recheck: 90 * time.Minute},
		"a window that opens": {gates: window(`"from":"14:00","to":"16:00"`), want: []string{"c1"},
			hold: "production WaitingForWindow 3 2026-11-27T14:00:00Z", recheck: 2 * time.Hour},
		"one that is over": {gates: window(`"from":"08:00","to":"12:00"`), want: []string{"c1"},
			hold: "production WaitingForWindow 3 2026-11-28T08:00:00Z", recheck: 20 * time.Hour},
		"one over midnight": {gates: window(`"days":["Thu"],"from":"22:00","to":"13:00"`),
			want: []string{"c1", "p1", "p2", "r1"}, recheck: time.Hour},
		"one of another day": {gates: window(`"days":["Thu"],"from":"08:00","to":"16:00"`), want: []string{"c1"},
			hold: "production WaitingForWindow 3 2026-12-03T08:00:00Z", recheck: 6*24*time.Hour - 4*time.Hour},
		"one elsewhere": {gates: window(`"from":"12:30","to":"13:30","timeZone":"Europe/Berlin"`),
			want: []string{"c1", "p1", "p2", "r1"}, recheck: 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ReadGates(map[string]string{muster.RolloutGatesAnnotation: x.gates,
				muster.RolloutApprovalsAnnotation: x.approvals, muster.RolloutPausedAnnotation: x.paused})
			if err != nil {
				t.Fatal(err)
			}
			result, err := Decide(
				clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll},
				groups,
				nil,
				noon,
			)
			if err != nil {
				t.Fatal(err)
			}
			hold := g.Hold(&result, groups, "v1", func(c string) bool { return slices.Contains(x.have, c) }, noon)
			var got []string
			for _, s := range result.ToRollout {
				got = append(got, s.Cluster)
			}
			slices.Sort(got)
			said := ""
			if hold != nil {
				said = fmt.Sprintf("%s %s %d", hold.Group, hold.Reason(), hold.Clusters)
				if !hold.Opens.IsZero() {
					said += " " + hold.Opens.UTC().Format(time.RFC3339)
				}
			}
			if !slices.Equal(got, x.want) || said != x.hold || result.RecheckAfter != x.recheck {
				t.Errorf("%v, %q, %s; want %v, %q, %s", got, said, result.RecheckAfter, x.want, x.hold, x.recheck)
			}
		})
	}
}

// An approval is kept once, and the newest twenty are kept.
func TestApprovalsAreKept(t *testing.T) {
	annotations := map[string]string{}
	for i := range 30 {
		g, err := ReadGates(annotations)
		if err != nil {
			t.Fatal(err)
		}
		annotations[muster.RolloutApprovalsAnnotation] = g.Approve(
			Approval{Group: "a", Content: fmt.Sprint(i / 2), By: fmt.Sprint(i)},
		)
	}
	g, err := ReadGates(annotations)
	if err != nil || len(g.Approvals) != 15 || g.Approvals[14].By != "29" || g.Approvals[0].By != "1" {
		t.Errorf("%v: %+v", err, g.Approvals)
	}
}

// A rollout over many groups goes on after the approval of each, and a message about them
// does not grow with their number.
func TestManyGroupsAreApproved(t *testing.T) {
	const many = 60
	annotations := map[string]string{muster.RolloutGatesAnnotation: `[{"group":"*"}]`}
	var groups []Group
	for i := range many {
		groups = append(groups, Group{Index: int32(i), Clusters: []string{fmt.Sprint("c", i)}})
		g, err := ReadGates(annotations)
		if err != nil {
			t.Fatal(err)
		}
		annotations[muster.RolloutApprovalsAnnotation] = g.Approve(Approval{Group: fmt.Sprint(i), Content: "v1",
			By: "jo"})
	}
	g, err := ReadGates(annotations)
	if err != nil {
		t.Fatal(err)
	}
	all := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll}
	result, err := Decide(all, groups, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	hold := g.Hold(&result, groups, "v1", func(string) bool { return false }, time.Now())
	if hold != nil || len(result.ToRollout) != many {
		t.Errorf("%d of %d get it, held back by %+v", len(result.ToRollout), many, hold)
	}
	if said := g.Approved("v1"); !strings.HasPrefix(said, "approved: 59 by jo") || !strings.HasSuffix(said,
		" and 50 more") {
		t.Errorf("it says %q", said)
	}
}
