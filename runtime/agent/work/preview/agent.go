// Package preview answers WorkPreviews: it says what a ManifestWork would do in the
// managed cluster. It takes the manifests through the stages of a pass over a work, read,
// decide and apply, with an applier that makes dry runs of all writes.
//
// It remembers nothing and writes nothing in the cluster. An agent that is killed answers
// after its next start, unless the preview is too old by then.
package preview

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/applier"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

const (
	// workers is how many previews are answered at a time, and writers how many dry runs
	// each makes at once: works go first.
	workers = 2
	writers = 4
	// attempts is how often a preview is tried that could not be had, and pause how long to
	// wait in between.
	attempts = 3
	pause    = 500 * time.Millisecond
	// userAgent is what the agent calls itself in requests.
	userAgent = "work-agent"
)

// Options say whose previews are answered where. All fields are required.
type Options struct {
	engine.Part
	// HubHost is the hub's URL exactly as in the agent's kubeconfig.
	HubHost string
	// Annotate keeps an annotation on the cluster's ManagedCluster: the value "" is
	// none. It must not block.
	Annotate func(key, value string)
	// Asked is what the ManagedCluster says of previews that wait, by the annotation
	// muster.PreviewsAskedAnnotation, and Changed has an element when that may be another.
	Asked   func() string
	Changed <-chan struct{}
}

// Run answers previews until ctx ends, and returns nil then. It returns an error only when
// it cannot start.
func Run(ctx context.Context, o Options) error {
	return o.Part.Run(ctx, "previews of works", userAgent, o.look)
}

// look asks the hub for previews, and returns what answers them; nil when it has none.
func (o Options) look(ctx context.Context, hub, local client.WithWatch) (func(context.Context) error, error) {
	info, err := engine.HubInfo(ctx, hub)
	if err != nil {
		return nil, err
	}
	if !hubinfo.Has(info, hubinfo.WorkPreview) {
		o.Annotate(muster.WorkPreviewsAnnotation, "")
		return nil, nil
	}
	a, err := newAgent(o, hub, local)
	if err != nil {
		return nil, err
	}
	return a.run, nil
}

// agent answers the previews of one hub.
type agent struct {
	Options
	hub, local client.Client
	mapper     meta.RESTMapper
	rights     *applier.Rights
	dry        *applier.Applier
	inspector  *report.Inspector
}

func newAgent(o Options, hub, local client.Client) (*agent, error) {
	a := &agent{Options: o, hub: hub, local: local}
	config := rest.CopyConfig(o.ManagedCluster)
	config.UserAgent, config.QPS = userAgent, -1
	over, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	clients, err := applier.Connect(config, over)
	if err != nil {
		return nil, err
	}
	a.mapper = clients.Mapper
	if a.inspector, err = report.NewInspector(o.Clock, 0); err != nil {
		return nil, err
	}
	if a.rights, err = applier.NewRights(local, config, nil); err != nil {
		return nil, err
	}
	a.dry = applier.NewDryRun(clients.Dynamic, a.rights, o.Clock)
	return a, nil
}

// run answers the previews that there are, and those that the hub tells of, until ctx ends.
func (a *agent) run(ctx context.Context) error {
	a.Annotate(muster.WorkPreviewsAnnotation, "true")
	failing := retry.New(a.Clock, retry.Start(time.Minute))
	known, current := "", false
	for ctx.Err() == nil {
		asked := a.Asked()
		if current && asked == known {
			select {
			case <-ctx.Done():
			case <-a.Changed:
			}
			continue
		}
		if err := a.answerAll(ctx); err != nil {
			a.Log.Debug("cannot list the previews, trying again", "err", err)
			failing.Wait(ctx, nil)
			continue
		}
		failing.Reset()
		known, current = asked, true
	}
	return nil
}

// answerAll answers the previews that have no answer yet, unless nobody waits for them any
// more.
func (a *agent) answerAll(ctx context.Context) error {
	list := &v1alpha1.WorkPreviewList{}
	if err := a.hub.List(ctx, list, client.InNamespace(a.ClusterName)); err != nil {
		return err
	}
	var running errgroup.Group
	running.SetLimit(workers)
	for i := range list.Items {
		p := &list.Items[i]
		answered := meta.FindStatusCondition(p.Status.Conditions, muster.ConditionPreviewed) != nil
		if answered || a.Clock.Since(p.CreationTimestamp.Time) > muster.PreviewLifetime {
			continue
		}
		running.Go(func() (err error) {
			defer recovery.Into(&err) // then it has no answer
			ctx, cancel := context.WithTimeout(ctx, engine.Timeout)
			defer cancel()
			a.answer(ctx, p)
			return nil
		})
	}
	_ = running.Wait()
	return nil
}

// answer answers one preview.
func (a *agent) answer(ctx context.Context, p *v1alpha1.WorkPreview) {
	objects, err := a.preview(ctx, p)
	for try := 1; err != nil && try < attempts && ctx.Err() == nil; try++ {
		retry.Sleep(ctx, a.Clock, pause, nil)
		objects, err = a.preview(ctx, p)
	}
	status := answerOf(p.Generation, objects, err)
	if _, err := patch.Status(ctx, a.hub, p, func() bool {
		status.Conditions = conditions(p.Status.Conditions, status.Conditions)
		p.Status = status
		return true
	}); err != nil {
		a.Log.Debug("cannot answer a preview", "preview", p.Name, "err", err)
	}
}

// conditions are those that there are with the answer's.
func conditions(are, answer []metav1.Condition) []metav1.Condition {
	for _, c := range answer {
		meta.SetStatusCondition(&are, c)
	}
	return are
}

// read reads what both sides say of the previewed work: its copy on the hub, which gets
// the previewed spec, and its AppliedManifestWork, empty where there is none.
func (a *agent) read(ctx context.Context, p *v1alpha1.WorkPreview) (*pass, error) {
	mw, amw := &workv1.ManifestWork{}, &workv1.AppliedManifestWork{}
	key := types.NamespacedName{Namespace: a.ClusterName, Name: p.Spec.WorkName}
	if err := a.hub.Get(ctx, key, mw); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the work %s on the hub: %w", key, err)
	}
	x := &pass{agent: a, work: mw, applied: amw, executors: []*workv1.ManifestWorkExecutor{mw.Spec.Executor}}
	mw.Namespace, mw.Name = key.Namespace, key.Name
	if mw.Spec = (workv1.ManifestWorkSpec{}); p.Spec.Work != nil {
		mw.Spec = *p.Spec.Work
		x.executors = append(x.executors, mw.Spec.Executor)
		x.manifests = manifest.Read(mw, a.mapper)
	}
	name := work.AppliedManifestWorkName(work.HubHash(a.HubHost), mw.Name)
	if err := a.local.Get(ctx, types.NamespacedName{Name: name}, amw); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the AppliedManifestWork %s in the cluster: %w", name, err)
	}
	return x, nil
}

// answerOf is the status for what was found out, as much of it as there is room for.
func answerOf(generation int64, objects []v1alpha1.ObjectPreview, err error) v1alpha1.WorkPreviewStatus {
	previewed := metav1.Condition{
		Type: muster.ConditionPreviewed, Status: metav1.ConditionTrue, Reason: muster.ReasonPreviewed,
		ObservedGeneration: generation, Message: summary(objects),
	}
	if err != nil {
		previewed.Status, previewed.Reason = metav1.ConditionFalse, muster.ReasonPreviewFailed
		previewed.Message = text.Cut(manifest.Redacted(workv1.ManifestResourceMeta{}, err).Error(), limits.PreviewText)
		objects = nil
	}
	s := v1alpha1.WorkPreviewStatus{Conditions: []metav1.Condition{previewed}}
	s.Objects, s.MoreObjects = fit(objects)
	return s
}
