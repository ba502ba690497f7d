// Package decide decides what to do about a work: from what is known of the work,
// its manifests and their objects it makes a plan. It also decides when the
// objects of a work that the hub no longer has are evicted.
//
// It is pure: values in, values out, the time included. It sends no requests. The
// package also holds the cache of what earlier passes led to, so that no request
// is sent whose answer is known. The cache may be lost at any time: what must not
// be lost is in the AppliedManifestWorks.
package decide

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Input is what is known of a work when it is decided what to do about it.
type Input struct {
	Work      *workv1.ManifestWork
	Manifests []*manifest.Manifest
	// Owner is the AppliedManifestWork that the objects are to have as an owner, and
	// Listed is what it lists so far; both are empty until there is one.
	Owner  types.UID
	Listed []workv1.AppliedManifestResourceMeta
	// Last is what became of the manifests in the last pass.
	Last map[manifest.Key]Result
	// Versions are the resource versions of those objects whose kind is watched
	// reliably; empty for an object that does not exist.
	Versions map[manifest.Key]string
	Now      time.Time
}

// Plan is what is to be done about a work.
type Plan struct {
	// Complete says that the work has done what it is for. Its objects are reported
	// on, and left as they are.
	Complete bool
	// Steps are what is to be done about each manifest.
	Steps []Step
	// Batches are the indices of the steps in the order in which to take them; those
	// of a batch may be taken at once.
	Batches [][]int
	// Announced is what the AppliedManifestWork has to list before anything is
	// applied. If the agent were killed between the two, and the manifest then
	// removed, the object would be orphaned otherwise.
	Announced []workv1.AppliedManifestResourceMeta
	// Dropped are the listed objects to delete, as the work no longer holds them, and
	// Kept are those that stay listed although no manifest names them. Until a work
	// has been reported as applied once, nothing is deleted: a hub that was restored
	// from a backup first sees what there is.
	Dropped, Kept []workv1.AppliedManifestResourceMeta
}

// Step is what is to be done about one manifest.
type Step struct {
	Manifest *manifest.Manifest
	// Last is what became of the manifest in the last pass; nil when that is not known.
	Last *Result
	// Unchanged says that nothing has to be requested, as neither the manifest nor its
	// object nor the right to apply it can have changed since the last pass.
	Unchanged bool
	// Observe says that the object is read and not applied.
	Observe bool
	// Correct says that the manifest was applied before, as it is now: its object only
	// has to be restored where others have changed it. It waits for Pause before.
	Correct bool
	Pause   time.Duration
	// New says that the AppliedManifestWork did not list the object before: it most
	// likely does not exist.
	New bool
	// Result is what is known of the result beforehand, and Listed how the
	// AppliedManifestWork lists the object before it is applied, if it does.
	Result Result
	Listed *workv1.AppliedManifestResourceMeta
}

// Work decides what to do about a work.
func Work(in Input) Plan {
	p := Plan{
		Complete:  isComplete(in.Work, in.Manifests),
		Steps:     make([]Step, len(in.Manifests)),
		Announced: slices.Clone(in.Listed),
	}
	executor := executorName(in.Work.Spec.Executor)
	listed := make(map[workv1.ResourceIdentifier]workv1.AppliedManifestResourceMeta, len(in.Listed))
	for _, r := range in.Listed {
		listed[r.ResourceIdentifier] = r
	}
	wanted := make(map[workv1.ResourceIdentifier]bool, len(in.Manifests))
	for i, m := range in.Manifests {
		s := &p.Steps[i]
		*s = in.step(m, executor, p.Complete)
		wanted[m.Identifier()] = true
		r, known := listed[m.Identifier()]
		if !known && m.Err == nil && m.Owned {
			s.New, known, r = true, true, ResourceMeta(m, "")
			p.Announced = append(p.Announced, r)
		}
		if known {
			s.Listed = &r
		}
	}
	prune := meta.FindStatusCondition(in.Work.Status.Conditions, work.ConditionApplied) != nil
	for _, r := range in.Listed {
		switch {
		case wanted[r.ResourceIdentifier]:
		case prune:
			p.Dropped = append(p.Dropped, r)
		default:
			p.Kept = append(p.Kept, r)
		}
	}
	p.Batches = manifest.Batches(in.Manifests)
	return p
}

// isComplete reports whether a work has done what it is for. Then it stays as it
// is until there is no rule any more that says so.
func isComplete(mw *workv1.ManifestWork, manifests []*manifest.Manifest) bool {
	c := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionComplete)
	if c == nil || c.Status != metav1.ConditionTrue {
		return false
	}
	return c.Reason != work.ReasonRulesAggregated ||
		slices.ContainsFunc(manifests, func(m *manifest.Manifest) bool { return m.HasRule(work.ConditionComplete) })
}

// step decides what to do about one manifest of a work.
func (in Input) step(m *manifest.Manifest, executor string, complete bool) Step {
	s := Step{Manifest: m, Observe: complete || m.Completed}
	if m.Err != nil || complete {
		s.Result.Err = m.Err
		return s
	}
	s.Result.Applied = Applied{Hash: m.Hash, Owner: in.Owner, Executor: executor}
	last, ok := in.Last[m.Key()]
	if !ok {
		return s
	}
	s.Last, s.Unchanged = &last, in.unchanged(m, executor, last)
	if s.Correct = last.Hash == m.Hash && last.Err == nil; s.Correct {
		s.Pause = last.Corrections.Wait(in.Now)
	}
	return s
}

// unchanged reports whether nothing has to be requested for a manifest.
func (in Input) unchanged(m *manifest.Manifest, executor string, last Result) bool {
	version, watched := in.Versions[m.Key()]
	switch {
	case last.Err != nil || last.Fetched != nil || last.Paused > 0:
		return false
	case last.Hash != m.Hash || last.Owner != in.Owner || last.Executor != executor:
		return false
	case executor != "" && in.Now.Sub(last.Allowed) >= manifest.DeniedRetry:
		return false
	case !watched || version != last.ResourceVersion:
		return false
	}
	return last.Exists || m.Strategy.Type == workv1.UpdateStrategyTypeReadOnly
}

// executorName identifies an executor; that of none is empty.
func executorName(e *workv1.ManifestWorkExecutor) string {
	if e == nil {
		return ""
	}
	if sa := e.Subject.ServiceAccount; sa != nil {
		return fmt.Sprintf("%s %s/%s", e.Subject.Type, sa.Namespace, sa.Name)
	}
	return string(e.Subject.Type) + " nobody"
}

// ResourceMeta is how an AppliedManifestWork lists the object of a manifest.
func ResourceMeta(m *manifest.Manifest, uid types.UID) workv1.AppliedManifestResourceMeta {
	return workv1.AppliedManifestResourceMeta{
		ResourceIdentifier: m.Identifier(), Version: m.Meta.Version, UID: string(uid),
	}
}

// evictionNever is the grace period from which on nothing is evicted.
const evictionNever = 100 * 365 * 24 * time.Hour

// Eviction is what to do about an AppliedManifestWork whose work the hub may not
// have any more.
type Eviction struct {
	// Begin and end say to write down that the grace period begins, or that it is
	// over as the work is back.
	Begin, End bool
	// Evict says to delete the AppliedManifestWork.
	Evict bool
	// After is when to look at it again; 0 for not before something changes.
	After time.Duration
}

// Evict decides about an AppliedManifestWork. managed says whether the
// hub has the work, and began is when the grace period began, if it has.
func Evict(managed bool, began *metav1.Time, grace time.Duration, now time.Time) Eviction {
	switch {
	case managed || grace >= evictionNever:
		return Eviction{End: began != nil}
	case began == nil:
		return Eviction{Begin: true, After: grace}
	}
	if left := began.Add(grace).Sub(now); left > 0 {
		return Eviction{After: left}
	}
	return Eviction{Evict: true}
}

// Result is what a pass over a work led to for one manifest and its object.
type Result struct {
	Applied
	report.Observed
}

// Applied is what applying a manifest led to.
type Applied struct {
	// Hash is that of the manifest and of how it was to be treated.
	Hash manifest.Hash
	// Owner is the AppliedManifestWork that the object was given.
	Owner types.UID
	// Executor is who has to be allowed to apply the manifest, and Allowed is when
	// that was found to be so.
	Executor string
	Allowed  time.Time
	// Err is why the manifest could not be applied.
	Err error
	// Body is that of the object as it was left; all zeros when it is not known.
	Body manifest.Hash
	// Corrections are how often the object had to be restored, and Paused is how
	// long to wait before that is done again.
	Corrections Corrections
	Paused      time.Duration
	// Rivals are the other works that had the object when it was restored last.
	Rivals []string
}

// Outcome is what is reported of a result at a time.
func (r Result) Outcome(now time.Time) report.Outcome {
	return report.Outcome{
		Applied: r.Err, Contested: r.Corrections.Contested(now), Rivals: r.Rivals, Observed: r.Observed,
	}
}

const (
	// freeCorrections is how often an object is restored at once. A person who
	// edits by hand never notices that there is a limit.
	freeCorrections = 10
	// firstPause is the first pause between two corrections beyond that; each is
	// twice as long as the one before, up to longestPause.
	firstPause   = time.Second
	longestPause = 4 * time.Minute
	// quiet is how long nothing may have had to be restored for the count to
	// start again.
	quiet = time.Minute
)

// Corrections are how often an object had to be restored lately although its
// manifest had not changed. Two works that disagree about an object, or a
// controller that always reverts what the agent does, would otherwise keep the
// agent and the API server busy without end.
type Corrections struct {
	count int
	last  time.Time
}

// pause is how long to leave the object alone after the last correction.
func (c Corrections) pause() time.Duration {
	over := c.count - freeCorrections
	if over < 0 {
		return 0
	}
	if over >= 8 { // 256 s
		return longestPause
	}
	return min(firstPause<<over, longestPause)
}

// Wait is how much of the pause is left.
func (c Corrections) Wait(now time.Time) time.Duration {
	return max(0, c.last.Add(c.pause()).Sub(now))
}

// Again counts one more correction.
func (c Corrections) Again(now time.Time) Corrections {
	if now.Sub(c.last) > quiet+2*c.pause() {
		c.count = 0
	}
	return Corrections{c.count + 1, now}
}

// Contested reports whether somebody else kept changing the object back, up to now.
func (c Corrections) Contested(now time.Time) bool {
	return c.count > freeCorrections && now.Sub(c.last) <= quiet+2*c.pause()
}

// SlowsDown reports whether the last correction is the first one with a pause
// after it.
func (c Corrections) SlowsDown() bool { return c.count == freeCorrections+1 }
