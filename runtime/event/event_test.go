package event_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
)

func made(name, note string) *eventsv1.Event {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_900_000_000, 0))
	s := event.Source{Controller: "muster", Instance: "hub", Clock: clk}
	about := corev1.ObjectReference{Kind: "LogicalCloud", Namespace: "team-a", Name: name}
	return s.New(about, event.What{Type: corev1.EventTypeWarning, Reason: "Refused", Action: "Ask", Note: note})
}

func TestEventIsAboutItsObject(t *testing.T) {
	e := made("prod", "no")
	got := []string{
		e.Namespace, e.Regarding.Name, e.Note, e.Type, e.Reason, e.Action, e.ReportingController, e.ReportingInstance,
	}
	want := []string{"team-a", "prod", "no", "Warning", "Refused", "Ask", "muster", "hub"}
	if !slices.Equal(got, want) || e.EventTime.Unix() != 1_900_000_000 {
		t.Errorf("got %+v", e)
	}
	if long := made("prod", strings.Repeat("x", 2000)); len(long.Note) != limits.EventNote {
		t.Errorf("the note has %d bytes", len(long.Note))
	}
}

func TestEqualEventsShareAName(t *testing.T) {
	name := func(object, note string) string {
		e := made(object, note)
		event.NameOnce(e, "refused-")
		return e.Name
	}
	first := name("prod", "no")
	if !strings.HasPrefix(first, "refused-") || name("prod", "no") != first {
		t.Errorf("equal events have the names %s and %s", first, name("prod", "no"))
	}
	for _, other := range []string{name("test", "no"), name("prod", "yes")} {
		if other == first {
			t.Errorf("another event has the name %s, too", other)
		}
	}
}
