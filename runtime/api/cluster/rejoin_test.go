package cluster_test

import (
	"maps"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestTakeOver(t *testing.T) {
	approved := time.Date(2026, 1, 1, 12, 0, 0, 500, time.FixedZone("", 3600))
	made := approved.Add(-time.Minute)
	of := func(agent, since string) map[string]string {
		return map[string]string{cluster.AgentAnnotation: agent, cluster.AgentSinceAnnotation: since}
	}
	b := of("b", "2026-01-01T11:00:00Z,2026-01-01T10:59:00Z")
	for name, x := range map[string]struct {
		have map[string]string
		want map[string]string // nil: nothing changes
	}{
		"the first":                              {nil, b},
		"after another":                          {of("a", "2026-01-01T10:59:59Z,2026-01-01T10:59:30Z"), b},
		"after itself":                           {of("b", "2026-01-01T10:00:00Z,2026-01-01T10:00:00Z"), nil},
		"one that is known to be later":          {of("c", "2026-01-01T11:00:01Z,2026-01-01T10:00:00Z"), nil},
		"one of the same second, made before":    {of("c", "2026-01-01T11:00:00Z,2026-01-01T10:58:59Z"), b},
		"one of the same second, made later":     {of("c", "2026-01-01T11:00:00Z,2026-01-01T10:59:01Z"), nil},
		"one of the same second, made then, too": {of("c", "2026-01-01T11:00:00Z,2026-01-01T10:59:00Z"), b},
		"one without a known start":              {of("a", ""), b},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := cluster.TakeOver(x.have, "b", made, approved)
			if changed != (x.want != nil) || !maps.Equal(got, x.want) {
				t.Errorf("got %v, %t, want %v", got, changed, x.want)
			}
		})
	}
}

func TestReplaced(t *testing.T) {
	for current, want := range map[string]bool{"": false, "a": false, "b": true} {
		if got := cluster.Replaced(map[string]string{cluster.AgentAnnotation: current}, "a"); got != want {
			t.Errorf("the agent a beside %q: got %t", current, got)
		}
	}
}
