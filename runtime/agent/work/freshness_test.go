package work

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestCopiesFromBeforeAWriteAreOutdated(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	f := newFreshness(clk)
	mw := func(version string) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", ResourceVersion: version}}
	}
	expect := func(when string, mw *workv1.ManifestWork, outdated bool) {
		t.Helper()
		if got := f.outdated(mw); got != outdated || f.waits("w") != outdated {
			t.Errorf("%s: outdated %v, waits %v, want %v", when, got, f.waits("w"), outdated)
		}
	}
	expect("before any write", mw("9"), false)
	f.Wrote(mw("10"))
	expect("a copy from before", mw("9"), true)
	expect("the copy that was written", mw("10"), false)
	expect("a copy from before again", mw("9"), true)
	expect("a later copy", mw("100"), false)
	expect("a version that is no number", mw("x"), false)
	clk.SetTime(clk.Now().Add(copyTimeout))
	expect("a hub whose versions start over", mw("3"), false)
	f.Wrote(mw("4"))
	f.Forget("w")
	expect("another work of the name", mw("3"), false)
}
