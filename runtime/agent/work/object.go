package work

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	klog "k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/applier"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// takeStep applies one manifest and evaluates the work's rules on its object.
// What the work brings is evaluated while others may write. A panic is the error of
// this manifest, and stops no other.
func (a *agent) takeStep(
	ctx context.Context, p *pass, s *decide.Step, inspection *report.Inspection,
) (r decide.Result) {
	defer recovery.Into(&r.Err)
	rules := inspection.Object(s.Manifest)
	var ignored ignored
	if !s.Observe && len(s.Manifest.Ignored) > 0 {
		ignored.rest, ignored.wait, ignored.err = rules.WithoutIgnored(ctx)
	}
	r, live := a.applyInTurn(ctx, p, s, ignored)
	if live != nil {
		var wait time.Duration
		if r.Findings, wait = rules.Inspect(ctx, live); wait > 0 {
			r.Waits = jittered(wait)
		}
	}
	if r.Progress.Moving {
		a.explain(ctx, p, s.Manifest, &r.Observed)
	}
	return r
}

// ignored is what became of the fields that a manifest ignores.
type ignored struct {
	rest *manifest.Rest // the manifest's object without them; nil when it ignores none
	wait time.Duration  // for its turn; 0 when it was evaluated
	err  error
}

// applyInTurn applies one manifest when it is its turn to be written. It returns
// its object too, if that could be read.
func (a *agent) applyInTurn(
	ctx context.Context, p *pass, s *decide.Step, ignored ignored,
) (r decide.Result, live *unstructured.Unstructured) {
	r = s.Result
	m := s.Manifest
	if m.Err != nil {
		return r, nil
	}
	if err := a.writers.Acquire(ctx, 1); err != nil {
		r.Err = err
		return r, nil
	}
	defer a.writers.Release(1)
	if !s.Observe {
		r.Err = manifest.Redacted(m.Meta, a.rights.MayApply(ctx, m))
	}
	if s.Observe || r.Err != nil {
		r.Observed, live = a.observe(ctx, m)
		return r, live
	}
	// From here on it is known that the executor may get the object.
	r.Allowed = a.clock.Now()
	switch {
	case ignored.wait > 0 && s.Correct:
		// It still counts as applied.
		allowed := r.Allowed
		r.Applied = s.Last.Applied
		r.Allowed = allowed
	case ignored.wait > 0:
		r.Err = manifest.ErrNoTurn
	case ignored.err != nil:
		name := klog.KRef(m.Meta.Namespace, m.Meta.Name)
		r.Err = fmt.Errorf("%w: %s %s: %w", manifest.ErrIgnoreFields, m.Meta.Kind, name, ignored.err)
	case s.Correct && s.Pause > 0:
		r.Corrections, r.Rivals, r.Paused = s.Last.Corrections, s.Last.Rivals, s.Pause
	default:
		return a.applyManifest(ctx, p, s, r, ignored.rest)
	}
	r.Observed, live = a.readObject(ctx, m)
	if ignored.wait > 0 {
		r.Waits = jittered(ignored.wait)
	}
	return r, live
}

// applyManifest applies one manifest, whose executor may do that.
func (a *agent) applyManifest(
	ctx context.Context, p *pass, s *decide.Step, r decide.Result, rest *manifest.Rest,
) (decide.Result, *unstructured.Unstructured) {
	m := s.Manifest
	owner := metav1.OwnerReference{
		APIVersion: workv1.GroupVersion.String(), Kind: "AppliedManifestWork", Name: p.applied.Name, UID: p.applied.UID,
	}
	r.Owner = owner.UID
	want := applier.Desired{Owner: owner, New: s.New, Rest: rest}
	if s.Correct {
		want.Settled, r.Corrections, r.Rivals = s.Last.Body, s.Last.Corrections, s.Last.Rivals
	}
	start := a.clock.Now()
	result, err := a.applier.Apply(ctx, m, want)
	a.metrics.applied(m.Strategy.Type, a.clock.Since(start), err)
	if err != nil {
		var live *unstructured.Unstructured
		r.Err = manifest.Redacted(m.Meta, err)
		r.Observed, live = a.readObject(ctx, m)
		return r, live
	}
	r.Observed, r.Body = report.ObservedOf(result.Live), result.Body
	if s.Correct && result.Wrote {
		r.Corrections, r.Rivals = r.Corrections.Again(a.clock.Now()), rivals(result.Live, owner, p.work.Name)
		if r.Corrections.SlowsDown() {
			a.log.Warn("others keep changing this object back: it is restored less and less often; "+
				"make sure that only one work or controller sets its fields",
				"work", p.work.Name, "kind", m.Meta.Kind, "namespace", m.Meta.Namespace, "name", m.Meta.Name)
		}
	}
	return r, result.Live
}

// rivals are the other works of the same hub that have an object.
func rivals(live *unstructured.Unstructured, own metav1.OwnerReference, work string) []string {
	if live == nil {
		return nil
	}
	var names []string
	ofHub := strings.TrimSuffix(own.Name, work)
	for _, owner := range live.GetOwnerReferences() {
		if name, ok := strings.CutPrefix(owner.Name, ofHub); ok && owner.Kind == own.Kind && owner.UID != own.UID {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// observe reads the object of a manifest that was not applied: it may exist
// nevertheless. What the work's executor may not get is not read at all.
func (a *agent) observe(ctx context.Context, m *manifest.Manifest) (report.Observed, *unstructured.Unstructured) {
	if err := a.rights.MayRead(ctx, m.Executor, m.GVR, m.Meta.Namespace, m.Meta.Name); err != nil {
		return report.Observed{Fetched: err, Hidden: manifest.IsDenied(err)}, nil
	}
	return a.readObject(ctx, m)
}

// readObject reads the object of a manifest whose executor may get it.
func (a *agent) readObject(ctx context.Context, m *manifest.Manifest) (report.Observed, *unstructured.Unstructured) {
	live, err := a.applier.Get(ctx, m.GVR, m.Meta.Namespace, m.Meta.Name)
	if err != nil {
		return report.Observed{Fetched: err}, nil
	}
	return report.ObservedOf(live), live
}

// The pods of a workload that is moving are read once more after a while: whether an
// image can be pulled changes nothing in the workload, and a watch of all pods of a
// cluster would cost more than a few lists of one workload's.
const (
	podsAgain = 5 * time.Second
	// podsRarely is for pods whose problem may pass, or become another one.
	podsRarely = 30 * time.Second
)

// explain adds to the progress of a workload what is wrong with its pods, for works
// whose progress is reported. It adds nothing where the agent, or the work's
// executor, may not read pods.
func (a *agent) explain(ctx context.Context, p *pass, m *manifest.Manifest, o *report.Observed) {
	o.Problem, o.PodsAgain = "", 0
	if !a.derive || p.plan.Complete || o.Progress.Selector == "" || !report.Derives(p.work) {
		return
	}
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	if a.rights.MayRead(ctx, m.Executor, gvr, m.Meta.Namespace, "") != nil {
		return
	}
	pods, err := a.applier.Pods(ctx, m.Meta.Namespace, o.Progress.Selector)
	if err != nil {
		return
	}
	problem := rolloutstatus.ProblemOf(pods)
	again := podsAgain
	if problem != nil {
		o.Problem = problem.String()
		switch {
		case problem.Reason == "ContainerCreating" || problem.Reason == "PodInitializing":
		case problem.Stuck: // what mends it changes the workload
			again = 0
		default:
			again = podsRarely
		}
	}
	if again > 0 && !o.Progress.Degraded {
		o.PodsAgain = jittered(again)
	}
}

func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/2))
}
