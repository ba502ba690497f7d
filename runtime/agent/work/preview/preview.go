package preview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/applier"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// pass is the preview of one work.
type pass struct {
	*agent
	// work is the work with the previewed spec, and manifests are those; none for a deletion.
	work       *workv1.ManifestWork
	manifests  []*manifest.Manifest
	applied    *workv1.AppliedManifestWork
	inspection *report.Inspection
	// executors are those of the work as it is and as it would be. Who previews learns
	// nothing of an object that one of them may not get.
	executors []*workv1.ManifestWorkExecutor
}

// preview says what would become of each object of a work.
func (a *agent) preview(ctx context.Context, p *v1alpha1.WorkPreview) ([]v1alpha1.ObjectPreview, error) {
	x, err := a.read(ctx, p)
	if err != nil {
		return nil, err
	}
	x.inspection = a.inspector.Begin(false)
	defer x.inspection.End()
	dropped := x.applied.Status.AppliedResources
	var objects []v1alpha1.ObjectPreview
	if p.Spec.Work != nil {
		plan := decide.Work(decide.Input{
			Work: x.work, Manifests: x.manifests, Owner: x.applied.UID, Listed: dropped, Now: a.Clock.Now(),
		})
		objects, dropped = x.steps(ctx, plan), plan.Dropped
	}
	for _, r := range dropped {
		if o, is := x.removal(ctx, r); is {
			objects = append(objects, o)
		}
	}
	return objects, ctx.Err()
}

// steps previews the steps of a plan, batch by batch.
func (x *pass) steps(ctx context.Context, plan decide.Plan) []v1alpha1.ObjectPreview {
	objects := make([]v1alpha1.ObjectPreview, len(plan.Steps))
	for _, batch := range plan.Batches {
		var running errgroup.Group
		running.SetLimit(writers)
		for _, i := range batch {
			running.Go(func() error {
				objects[i] = x.step(ctx, &plan.Steps[i])
				return nil
			})
		}
		_ = running.Wait() // every object holds its own error
	}
	return objects
}

// step previews one manifest. A panic is the error of this manifest, and stops no other.
func (x *pass) step(ctx context.Context, s *decide.Step) v1alpha1.ObjectPreview {
	o := v1alpha1.ObjectPreview{ResourceMeta: s.Manifest.Meta, Outcome: v1alpha1.PreviewUnchanged}
	var err error
	func() {
		defer recovery.Into(&err)
		err = x.tryStep(ctx, s, &o)
	}()
	if err != nil {
		x.explain(&o, s.Manifest, err)
	}
	o.Message = text.Cut(o.Message, limits.PreviewText)
	return o
}

func (x *pass) tryStep(ctx context.Context, s *decide.Step, o *v1alpha1.ObjectPreview) error {
	m := s.Manifest
	switch {
	case m.Err != nil:
		return m.Err
	case s.Observe:
		o.Message = "it is complete, and not applied any more"
		return nil
	}
	if err := x.rights.MayApply(ctx, m); err != nil {
		return err
	}
	before, err := x.dry.Get(ctx, m.GVR, m.Meta.Namespace, m.Meta.Name)
	if err != nil {
		return err
	}
	want := applier.Desired{Owner: metav1.OwnerReference{
		APIVersion: workv1.GroupVersion.String(), Kind: "AppliedManifestWork",
		Name: x.applied.Name, UID: x.applied.UID,
	}}
	if len(m.Ignored) > 0 {
		rest, wait, err := x.inspection.Object(m).WithoutIgnored(ctx)
		if wait > 0 {
			err = manifest.ErrNoTurn
		}
		if err != nil {
			return fmt.Errorf("%w: %w", manifest.ErrIgnoreFields, err)
		}
		want.Rest = rest
	}
	result, err := x.dry.Apply(ctx, m, want)
	switch {
	case err != nil:
		return err
	case m.Strategy.Type == workv1.UpdateStrategyTypeReadOnly:
		o.Message = "it is only read"
		return nil
	case before == nil:
		o.Outcome = v1alpha1.PreviewCreate
		return nil
	}
	o.Changes, o.MoreChanges = changes(before, result.Live)
	switch {
	case result.Recreated:
		o.Outcome = v1alpha1.PreviewRecreate
	case len(o.Changes) > 0:
		o.Outcome = v1alpha1.PreviewChange
	}
	return nil
}

// explain says what an error means for an object.
func (x *pass) explain(o *v1alpha1.ObjectPreview, m *manifest.Manifest, err error) {
	o.Message = strings.TrimSuffix(manifest.Redacted(m.Meta, err).Error(), manifest.DeniedAdvice)
	if needed := x.brings(m, err); needed != "" {
		o.Outcome = v1alpha1.PreviewCreate
		o.Message = "not checked, as it needs the " + needed + ", which comes with this work"
		return
	}
	var status apierrors.APIStatus
	switch {
	case manifest.IsConflict(err):
		o.Outcome = v1alpha1.PreviewConflict
	case manifest.IsDenied(err) || m.UnknownKind:
		o.Outcome = v1alpha1.PreviewRefused
	case errors.Is(err, manifest.ErrNoTurn):
		o.Outcome = v1alpha1.PreviewUnknown
	case m.Err != nil || errors.Is(err, manifest.ErrIgnoreFields):
		o.Outcome = v1alpha1.PreviewRefused
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"):
		o.Outcome = v1alpha1.PreviewUnknown
		o.Message = "a webhook has side effects, so that it takes part in no dry run: " + o.Message
	case errors.As(err, &status) && isFinal(err):
		o.Outcome = v1alpha1.PreviewRefused
	default:
		o.Outcome = v1alpha1.PreviewUnknown
	}
}

// isFinal reports whether an API server's error is a refusal, and not a failure that
// passes.
func isFinal(err error) bool {
	return !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsInternalError(err) && !apierrors.IsServiceUnavailable(err)
}

// brings names what an object lacks in the cluster, if the work itself brings it: its
// namespace, its kind, or the role that it binds.
func (x *pass) brings(m *manifest.Manifest, err error) string {
	if m.UnknownKind {
		for i := range x.manifests {
			if name, is := defines(x.work.Spec.Workload.Manifests[i].Raw, m.Meta); is {
				return "definition " + name
			}
		}
		return ""
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	missing := status.Status().Details
	for _, other := range x.manifests {
		if other != m && other.Meta.Resource == missing.Kind && other.Meta.Group == missing.Group &&
			other.Meta.Name == missing.Name {
			return strings.ToLower(other.Meta.Kind) + " " + missing.Name
		}
	}
	return ""
}

// defines reports whether a manifest is the definition of an object's kind.
func defines(raw []byte, of workv1.ManifestResourceMeta) (name string, is bool) {
	var crd struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			Group string `json:"group"`
			Names struct {
				Kind string `json:"kind"`
			} `json:"names"`
		} `json:"spec"`
	}
	if json.Unmarshal(raw, &crd) != nil || crd.Kind != "CustomResourceDefinition" {
		return "", false
	}
	return crd.Metadata.Name, crd.Spec.Group == of.Group && crd.Spec.Names.Kind == of.Kind
}

// removal previews an object that the work would no longer hold. is is false for one that
// is gone.
func (x *pass) removal(
	ctx context.Context, r workv1.AppliedManifestResourceMeta,
) (o v1alpha1.ObjectPreview, is bool) {
	gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	o.ResourceMeta = workv1.ManifestResourceMeta{
		Ordinal: -1, Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name,
	}
	if gvk, err := x.mapper.KindFor(gvr); err == nil {
		o.ResourceMeta.Kind = gvk.Kind
	}
	for _, executor := range x.executors {
		if err := x.rights.MayRead(ctx, executor, gvr, r.Namespace, r.Name); err != nil {
			o.Outcome = v1alpha1.PreviewUnknown
			o.Message = text.Cut(strings.TrimSuffix(err.Error(), manifest.DeniedAdvice), limits.PreviewText)
			return o, true
		}
	}
	removal, err := x.dry.WouldRemove(ctx, r, x.applied.UID)
	switch {
	case err != nil:
		x.explain(&o, &manifest.Manifest{Meta: o.ResourceMeta}, err)
		o.Message = text.Cut("it can't be deleted: "+o.Message, limits.PreviewText)
		return o, true
	case removal == applier.RemovesHold:
		o.Outcome, o.Message = v1alpha1.PreviewRelease, "it stays: other works hold it, or it was orphaned"
		return o, true
	case removal == applier.RemovesAlready:
		o.Outcome, o.Message = v1alpha1.PreviewDelete, "it is being deleted already"
		return o, true
	}
	o.Outcome = v1alpha1.PreviewDelete
	return o, removal == applier.RemovesObject
}
