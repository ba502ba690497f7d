package replicaset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

const (
	// byOverride is the index of sets by the WorkOverride that they name, and overridden
	// the value that all of them have beside its name.
	byOverride = "metadata.annotations.override"
	overridden = "*"

	// shownClusters is how many clusters without content a condition lists.
	shownClusters = 20
)

// contents are what the clusters of a set are to have.
type contents struct {
	// all is the digest of the template, which every cluster of a set without an override
	// gets.
	all string
	// override is whether the set has one; then each cluster has its own.
	override bool
	// template makes it; nil without an override, and while there is a problem.
	template *override.Template
	// problem is why nobody knows what any cluster is to have.
	problem *problem
	// digest is that of the override; "" when it could not be read.
	digest string
	// each is by the cluster's name.
	each map[string]content
}

// problem is why an override can't be used, with the reason of the condition.
type problem struct {
	reason string
	cause  error
}

func unusable(cause error) *problem { return &problem{muster.ReasonOverrideUnusable, cause} }
func notThere(cause error) *problem { return &problem{muster.ReasonOverrideNotFound, cause} }

// content is what one cluster is to have.
type content struct {
	digest string
	// missing is why the cluster has none.
	missing error
	// version is that of the ManagedCluster from which this was made.
	version string
}

// of is the digest of what a cluster is to have, "" without one.
func (c contents) of(cluster string) string {
	if !c.override {
		return c.all
	}
	return c.each[cluster].digest
}

// without are the clusters without content, sorted.
func (c contents) without() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(c.each)) {
		if c.each[name].missing != nil {
			names = append(names, name)
		}
	}
	return names
}

// condition says whether each cluster has its own content; nil for a set without an override.
func (c contents) condition() *metav1.Condition {
	if !c.override {
		return nil
	}
	out := &metav1.Condition{Type: muster.ConditionOverridden, Status: metav1.ConditionFalse}
	switch without := c.without(); {
	case c.problem != nil:
		out.Reason, out.Message = c.problem.reason, "nothing is handed out: "+c.problem.cause.Error()
	case len(without) > 0:
		var said []string
		for _, name := range without {
			said = append(
				said,
				fmt.Sprintf("the cluster %s: %s", name, text.Cut(oneLine(c.each[name].missing), limits.ClusterMessage)),
			)
		}
		out.Reason = muster.ReasonClustersWithout
		out.Message = fmt.Sprintf("%d of %d clusters get nothing new: %s", len(without), len(c.each),
			strings.Join(text.First(said, shownClusters), "; "))
	default:
		out.Status, out.Reason = metav1.ConditionTrue, muster.ReasonOverridden
		out.Message = "each cluster has its own content"
	}
	if c.digest != "" {
		out.Message = rollout.AboutOverride(c.digest) + out.Message
	}
	out.Message = text.Cut(out.Message, limits.ConditionMessage)
	return out
}

// oneLine is an error that may have several lines, for a list.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }

// rendered remembers what the clusters of sets get, as digests: a pass looks at all clusters
// of a set, and mostly one of them has changed, or none. It is safe for concurrent use, by
// one pass for each set.
type rendered struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*renderedSet
}

type renderedSet struct {
	// from is the set and the override that template was made of.
	from     string
	template *override.Template
	problem  *problem
	each     map[string]content
}

func (r *rendered) get(set types.NamespacedName) *renderedSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sets == nil {
		r.sets = map[types.NamespacedName]*renderedSet{}
	}
	if r.sets[set] == nil {
		r.sets[set] = &renderedSet{}
	}
	return r.sets[set]
}

func (r *rendered) forget(set types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sets, set)
}

// contents are what the selected clusters of a set are to have.
func (c *Controller) contents(
	ctx context.Context,
	set *workv1alpha1.ManifestWorkReplicaSet,
	clusters []string,
) (contents, error) {
	out := contents{all: workdigest.Of(set.Spec.ManifestWorkTemplate)}
	template, problem, err := c.template(ctx, set)
	if err != nil {
		return out, err
	}
	if template == nil && problem == nil {
		c.rendered.forget(client.ObjectKeyFromObject(set))
		return out, nil
	}
	if ref, err := override.ReferenceOf(set.Annotations); err == nil {
		if out.digest = ref.Digest; ref.Inline != nil {
			out.digest = override.Digest(*ref.Inline)
		}
	}
	out.override, out.template, out.problem = true, template, problem
	if problem != nil {
		return out, nil // the condition says so
	}
	known := c.rendered.get(client.ObjectKeyFromObject(set))
	out.each = make(map[string]content, len(clusters))
	for _, name := range clusters {
		mc := &clusterv1.ManagedCluster{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, mc); apierrors.IsNotFound(err) {
			out.each[name] = content{missing: errors.New("there is no such ManagedCluster")}
			continue
		} else if err != nil {
			return out, fmt.Errorf("read the cluster %s: %w", name, err)
		}
		had, ok := known.each[name]
		if !ok || had.version != mc.ResourceVersion {
			had = content{version: mc.ResourceVersion}
			var spec workv1.ManifestWorkSpec
			if spec, had.missing = template.For(ctx, mc); had.missing == nil {
				had.digest = workdigest.Of(spec)
			}
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
		}
		out.each[name] = had
	}
	known.each = out.each
	return out, nil
}

// template is the template of a set with an override that can be used; nil for others. The
// error is one of the hub's own.
func (c *Controller) template(
	ctx context.Context,
	set *workv1alpha1.ManifestWorkReplicaSet,
) (*override.Template, *problem, error) {
	ref, err := override.ReferenceOf(set.Annotations)
	if err != nil {
		return nil, unusable(err), nil
	}
	if ref.None() {
		return nil, nil, nil
	}
	if !c.overrides {
		return nil, notThere(errors.New("the hub's feature gate WorkOverride is off")), nil
	}
	from := fmt.Sprint(set.UID, set.Generation, " ", set.Annotations[muster.OverrideAnnotation])
	spec, err := ref.Spec(func(name string) (*v1alpha1.WorkOverride, error) {
		o := &v1alpha1.WorkOverride{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, o)
		from = fmt.Sprint(from, " ", o.UID, o.Generation)
		return o, err
	})
	var gone override.NotThereError
	switch {
	case errors.As(err, &gone):
		return nil, notThere(gone), nil
	case err != nil:
		return nil, nil, fmt.Errorf("read the WorkOverride %s: %w", ref.Name, err)
	}
	known := c.rendered.get(client.ObjectKeyFromObject(set))
	if known.from != from {
		*known = renderedSet{from: from}
		read, err := override.Read(*spec)
		if err == nil {
			known.template, err = read.Bind(set.Spec.ManifestWorkTemplate, c.limit)
		}
		switch {
		case err != nil && ref.Name != "":
			known.problem = unusable(fmt.Errorf("the WorkOverride %s: %w", ref.Name, err))
		case err != nil:
			known.problem = unusable(err)
		}
	}
	return known.template, known.problem, nil
}

// specFor is what a cluster is to have now, by the template of the pass; nil stands for a set
// without an override.
func (c *Controller) specFor(
	ctx context.Context,
	set *workv1alpha1.ManifestWorkReplicaSet,
	template *override.Template,
	cluster string,
) (workv1.ManifestWorkSpec, error) {
	if template == nil {
		return *set.Spec.ManifestWorkTemplate.DeepCopy(), nil
	}
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: cluster}, mc); err != nil {
		return workv1.ManifestWorkSpec{}, fmt.Errorf("read the cluster: %w", err)
	}
	return template.For(ctx, mc)
}

// overridesOf is the index byOverride.
func overridesOf(o client.Object) []string {
	ref, err := override.ReferenceOf(o.GetAnnotations())
	if err != nil || ref.None() {
		return nil
	}
	return []string{overridden, ref.Name}
}

// ofOverride are the sets that name a WorkOverride.
func (c *Controller) ofOverride(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Matching[client.Object](ctx, c.client, &workv1alpha1.ManifestWorkReplicaSetList{}, nil,
		client.InNamespace(o.GetNamespace()), client.MatchingFields{byOverride: o.GetName()})
}

// ofContent are the sets with an override that have a work in a cluster, or would have one
// if the cluster had a value.
func (c *Controller) ofContent(ctx context.Context, o client.Object) []reconcile.Request {
	sets := watch.Matching[client.Object](ctx, c.client, &workv1alpha1.ManifestWorkReplicaSetList{}, nil,
		client.MatchingFields{byOverride: overridden})
	if len(sets) == 0 {
		return nil
	}
	concerned := map[types.NamespacedName]bool{}
	for _, set := range c.awaited.Of(o.GetName()) {
		concerned[set] = true
	}
	watch.Matching(ctx, c.client, &workv1.ManifestWorkList{}, func(w *workv1.ManifestWork) bool {
		for _, set := range ofWork(ctx, w) {
			concerned[set.NamespacedName] = true
		}
		return false
	}, client.InNamespace(o.GetName()))
	return slices.DeleteFunc(sets, func(r reconcile.Request) bool { return !concerned[r.NamespacedName] })
}
