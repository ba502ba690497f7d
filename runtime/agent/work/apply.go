package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	klog "k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/applier"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// apply carries out the plan of a pass: it lists in the AppliedManifestWork what is
// about to be made, takes the steps, and deletes what the work no longer holds.
func (a *agent) apply(ctx context.Context, p *pass) error {
	if !p.plan.Complete {
		if err := a.ensureApplied(ctx, p); apierrors.IsInvalid(err) {
			// A name that is too long, say: the work's author has to know.
			return errors.Join(err, a.writeStatus(ctx, p.work, report.Refused(p.work.Status, p.work.Generation, err)))
		} else if err != nil {
			return err
		}
		if err := a.writeApplied(ctx, p.applied, p.plan.Announced); err != nil {
			return err
		}
	}
	a.takeSteps(ctx, p)
	if err := ctx.Err(); err != nil || p.plan.Complete {
		return err
	}
	results := make(map[manifest.Key]decide.Result, len(p.results))
	for i, m := range p.known.Manifests {
		if m.Err == nil {
			results[m.Key()] = p.results[i]
		}
	}
	if a.memory.Remember(p.work.Name, p.last, results) {
		a.works.Add(p.work.Name) // rights have changed meanwhile
	}
	if listed, ok := listing(p.plan, p.results); ok {
		p.err = a.prune(ctx, p, listed)
	}
	return nil
}

// ensureApplied makes the AppliedManifestWork that owns a work's objects.
func (a *agent) ensureApplied(ctx context.Context, p *pass) error {
	mw, amw := p.work, p.applied
	want := workv1.AppliedManifestWorkSpec{HubHash: a.hubHash, ManifestWorkName: mw.Name, AgentID: a.agentID}
	switch {
	case amw == nil:
		p.applied = &workv1.AppliedManifestWork{
			ObjectMeta: metav1.ObjectMeta{
				Name:       apiwork.AppliedManifestWorkName(a.hubHash, mw.Name),
				Labels:     mw.Labels,
				Finalizers: []string{apiwork.AppliedManifestWorkFinalizer},
			},
			Spec: want,
		}
		if err := a.local.Create(ctx, p.applied); err != nil {
			return fmt.Errorf("create the AppliedManifestWork of the work %s: %w", mw.Name, err)
		}
		return nil
	case !amw.DeletionTimestamp.IsZero():
		return fmt.Errorf("the AppliedManifestWork %s is still being deleted: %w", amw.Name, engine.ErrWaiting)
	case amw.Spec == want && controllerutil.ContainsFinalizer(amw, apiwork.AppliedManifestWorkFinalizer):
		return nil
	}
	written, err := patch.Object(ctx, a.local, amw, func() bool {
		amw.Spec = want
		controllerutil.AddFinalizer(amw, apiwork.AppliedManifestWorkFinalizer)
		return true
	})
	if err != nil {
		return fmt.Errorf("take over the AppliedManifestWork %s: %w", amw.Name, err)
	}
	return stillThere(written, amw)
}

// stillThere fails for an AppliedManifestWork that was not written as it is gone:
// no object may be made that it would have to own.
func stillThere(written bool, amw *workv1.AppliedManifestWork) error {
	if !written {
		return fmt.Errorf("the AppliedManifestWork %s is gone: %w", amw.Name, engine.ErrWaiting)
	}
	return nil
}

// takeSteps takes the steps of a plan, batch by batch.
func (a *agent) takeSteps(ctx context.Context, p *pass) {
	rules := a.inspector.Begin(p.last.Slow)
	defer func() {
		if slow := rules.End(); slow != p.last.Slow {
			a.memory.SetSlow(p.work.Name, slow)
		}
	}()
	batches := p.plan.Batches
	if p.plan.Complete {
		// In another order in each pass: there may not be time for the rules of all.
		batches = [][]int{rand.Perm(len(p.plan.Steps))}
	}
	p.results = make([]decide.Result, len(p.plan.Steps))
	for _, batch := range batches {
		var running errgroup.Group
		// So many objects of one work are held in memory at once.
		running.SetLimit(writers)
		for _, i := range batch {
			s, r := &p.plan.Steps[i], &p.results[i]
			// What waits for its rules is only read when there is time for them.
			if s.Unchanged && (s.Last.Waits == 0 || !rules.Open()) {
				*r = *s.Last
				if r.PodsAgain > 0 {
					running.Go(func() (err error) {
						defer recovery.Into(&err) // then what was known stays
						a.explain(ctx, p, s.Manifest, &r.Observed)
						return nil
					})
				}
				continue
			}
			running.Go(func() error {
				*r = a.takeStep(ctx, p, s, rules)
				return nil
			})
		}
		_ = running.Wait() // every result holds its own error
	}
}

// listing is what an AppliedManifestWork has to list once the steps of a plan were
// taken. ok is false while it is not known which objects there are: then the list
// stays as it is, and nothing is deleted.
func listing(plan decide.Plan, results []decide.Result) (listed []workv1.AppliedManifestResourceMeta, ok bool) {
	for i, s := range plan.Steps {
		switch r := results[i]; {
		case s.Manifest.Err == nil && r.Hidden:
			if s.Listed != nil {
				listed = append(listed, *s.Listed) // whatever has become of it
			}
		case s.Manifest.Err != nil || r.Fetched != nil:
			return nil, false
		case r.Exists:
			listed = append(listed, decide.ResourceMeta(s.Manifest, r.UID))
		case s.Manifest.Owned: // still to be made
			listed = append(listed, decide.ResourceMeta(s.Manifest, ""))
		}
	}
	return append(listed, plan.Kept...), true
}

// prune deletes what a work no longer holds, and has its AppliedManifestWork list
// the rest.
func (a *agent) prune(ctx context.Context, p *pass, listed []workv1.AppliedManifestResourceMeta) error {
	pending, err := a.removeAll(ctx, p.applied, p.plan.Dropped)
	if err != nil {
		err = fmt.Errorf("delete what the work %s no longer holds: %w", p.work.Name, err)
	}
	for _, r := range pending {
		listed = append(listed, r.Resource)
	}
	p.pending = pending
	return errors.Join(err, a.writeApplied(ctx, p.applied, listed))
}

// removeAll deletes objects that a work has made. It returns what is still there.
func (a *agent) removeAll(
	ctx context.Context, amw *workv1.AppliedManifestWork, made []workv1.AppliedManifestResourceMeta,
) ([]report.Remainder, error) {
	var pending []report.Remainder
	var problems []error
	for _, r := range made {
		left, err := a.applier.Remove(ctx, r, amw)
		if err != nil {
			problems = append(problems, fmt.Errorf("delete the %s: %w", report.NameOf(r), err))
		}
		if left != nil {
			pending = append(pending, report.Remainder{Resource: r, Finalizers: left.Finalizers})
		}
	}
	return pending, errors.Join(problems...)
}

// writeApplied writes the list of what a work has made when it has changed.
func (a *agent) writeApplied(
	ctx context.Context, amw *workv1.AppliedManifestWork, made []workv1.AppliedManifestResourceMeta,
) error {
	slices.SortFunc(made, func(x, y workv1.AppliedManifestResourceMeta) int {
		return cmp.Or(
			cmp.Compare(x.Group, y.Group), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name),
		)
	})
	if apiequality.Semantic.DeepEqual(made, amw.Status.AppliedResources) {
		return nil
	}
	written, err := patch.Status(ctx, a.local, amw, func() bool {
		amw.Status.AppliedResources = made
		return true
	})
	if err != nil {
		return fmt.Errorf("list what the work %s has made: %w", amw.Spec.ManifestWorkName, err)
	}
	return stillThere(written, amw)
}

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
		case problem.Stuck: // it takes a change of the workload, which is watched
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
