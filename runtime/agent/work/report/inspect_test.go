package report

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// A work whose rules take long waits for its turn, gets so much time, and leaves
// the rest for later. One whose rules are quick never waits.
func TestSlowWorksTakeTurns(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	inspector := &Inspector{clock: clock, turns: semaphore.NewWeighted(slowInspections)}
	look := func() *Inspection { return inspector.Begin(false) }
	slowly := func(bool) bool { clock.Step(lightInspection); return false }
	evaluated := func(i *Inspection, f func(bool) bool) (n int) {
		for range 1000 {
			if i.do(f) {
				n++
			}
		}
		return n
	}
	first, second, quick := look(), look(), look()
	if n := evaluated(first, slowly); n != int(longInspection/lightInspection) || first.Open() {
		t.Errorf("%d objects of a slow work were looked at", n)
	}
	if n := evaluated(second, slowly); n != 1 || second.Open() {
		t.Errorf("%d objects of a second slow work were looked at while the first has its turn", n)
	}
	if n := evaluated(quick, func(bool) bool { clock.Step(time.Microsecond); return false }); n != 1000 {
		t.Errorf("%d objects of a quick work were looked at", n)
	}
	first.End()
	first.End()
	if first.Open() {
		t.Error("a look that has ended goes on")
	}
	second.End()
	third := look()
	if n := evaluated(third, slowly); n != int(longInspection/lightInspection) {
		t.Errorf("%d objects were looked at after the turn was given back", n)
	}
	third.End()
	if !inspector.turns.TryAcquire(slowInspections) {
		t.Error("the turn is kept")
	}
	inspector.turns.Release(slowInspections)

	// What is too costly without a turn is done again with one.
	costly := look()
	var turns []bool
	done := costly.do(func(turn bool) bool { turns = append(turns, turn); return true })
	if !done || len(turns) != 2 || turns[0] || !turns[1] {
		t.Errorf("a costly object was looked at with turns %v", turns)
	}
	other := look()
	if other.do(func(bool) bool { return true }) {
		t.Error("a costly object was looked at while another work has its turn")
	}
	if !costly.End() || !other.End() || look().End() {
		t.Error("it is told wrongly which works are slow")
	}
}

// Paths to ignored fields that cost more than a little are evaluated in turns, and
// those that cost too much fail with the reason.
func TestCostlyIgnoredFieldsTakeTurns(t *testing.T) {
	ctx := context.Background()
	inspector := &Inspector{clock: clocktesting.NewFakeClock(time.Now()), turns: semaphore.NewWeighted(slowInspections)}
	list := make([]any, 20_000)
	for i := range list {
		list[i] = int64(i)
	}
	ignoring := func(path string) *manifest.Manifest {
		return &manifest.Manifest{
			Required: &unstructured.Unstructured{Object: map[string]any{"a": list, "b": "c"}},
			Ignored: []workv1.IgnoreField{{
				Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JQPathExpressions: []string{path},
			}},
		}
	}
	costly, cheap := ignoring(`.a[] | select(. == 1)`), ignoring(`.b`)
	first, second, third := inspector.Begin(false), inspector.Begin(false), inspector.Begin(false)
	if rest, wait, err := first.Object(costly).WithoutIgnored(ctx); rest == nil || wait > 0 || err != nil {
		t.Errorf("with its turn: got %v, %s, %v", rest, wait, err)
	}
	if rest, wait, err := second.Object(costly).WithoutIgnored(ctx); rest != nil || wait != inspectionPause || err != nil {
		t.Errorf("while another work has its turn: got %v, %s, %v", rest, wait, err)
	}
	if rest, wait, err := third.Object(cheap).WithoutIgnored(ctx); rest == nil || wait > 0 || err != nil {
		t.Errorf("without need for a turn: got %v, %s, %v", rest, wait, err)
	}
	if !first.End() || !second.End() || third.End() {
		t.Error("it is wrong which works are slow")
	}
	bomb := ignoring("." + strings.Repeat("|(.,.)", 12) + "|select(.a==.a)|.b")
	if _, wait, err := inspector.Begin(true).Object(bomb).WithoutIgnored(ctx); wait > 0 || !errors.Is(err, fieldpath.ErrLimit) {
		t.Errorf("what costs too much: got %s, %v", wait, err)
	}
}
