// Package preview is the user's side of previews: it asks the agents of clusters, by
// WorkPreviews on the hub, what works would do there, and puts the answers together.
//
// How the hub is reached is up to the caller: Terraform's provider and the command line,
// which share it, have clients of their own.
package preview

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

const (
	// DefaultTimeout is how long each cluster has to answer.
	DefaultTimeout = 10 * time.Second
	// atOnce is how many clusters are asked at a time. The hub keeps a copy of the
	// manifests for each of them until it has answered.
	atOnce = 32
	// createTimeout bounds the time until a question is put.
	createTimeout = 30 * time.Second
	// deleteTimeout bounds the deletion of a preview. The hub deletes what is left.
	deleteTimeout = 5 * time.Second
)

// NotServed says what a hub without previews lacks.
const NotServed = "the hub has no previews of works: it needs to be a muster hub with the feature gate WorkPreview, " +
	"which is on by default"

// Hub is how previews and clusters are reached.
type Hub interface {
	// Cluster reads a ManagedCluster.
	Cluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error)
	// Create creates a preview, and reads what the hub has made of it.
	Create(ctx context.Context, p *v1alpha1.WorkPreview) error
	// Await reads a preview whenever it changes, until done, or the context ends.
	Await(ctx context.Context, p *v1alpha1.WorkPreview, done func() bool) error
	// Delete deletes a preview.
	Delete(ctx context.Context, p *v1alpha1.WorkPreview) error
}

// Question is what a work would do in one cluster.
type Question struct {
	// Cluster is asked about the work of this name, which need not exist.
	Cluster, Work string
	// Spec is the work's; nil for its deletion.
	Spec *workv1.ManifestWorkSpec
	// Own gives each cluster its own spec, in place of Spec; nil where all have the same.
	Own *override.Template
}

// Answer is what a cluster says.
type Answer struct {
	Cluster string
	// Objects are what would become of each, and MoreObjects how many were left out.
	Objects     []v1alpha1.ObjectPreview
	MoreObjects int
	// Missing is why there is no answer; empty when there is one.
	Missing string
}

// Ask asks clusters, many at a time. Each has timeout to answer, or DefaultTimeout when
// that is 0. The answers are in the order of the questions. A cluster
// without an answer has one that says why. The error is that of a context that has ended.
func Ask(ctx context.Context, hub Hub, questions []Question, timeout time.Duration) ([]Answer, error) {
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	answers := make([]Answer, len(questions))
	var asking errgroup.Group
	asking.SetLimit(atOnce)
	for i, q := range questions {
		asking.Go(func() error {
			answers[i] = q.ask(ctx, hub, timeout)
			return nil
		})
	}
	_ = asking.Wait() // each answer holds its own error
	return answers, ctx.Err()
}

func (q Question) ask(ctx context.Context, hub Hub, timeout time.Duration) Answer {
	a := Answer{Cluster: q.Cluster}
	if ctx.Err() != nil {
		a.Missing = "was not asked, as other clusters took too long"
		return a
	}
	// The hub may have a user wait who has much to ask: that is not the cluster's time.
	asking, cancel := context.WithTimeout(ctx, max(timeout, createTimeout))
	defer cancel()
	mc, err := hub.Cluster(asking, q.Cluster)
	if a.Missing = unable(mc, err); a.Missing != "" {
		return a
	}
	if q.Own != nil {
		if err != nil {
			a.Missing = fmt.Sprintf("can't be asked: what it would get depends on its ManagedCluster, which can't be "+
				"read: %v", err)
			return a
		}
		spec, err := q.Own.For(asking, mc)
		if err != nil {
			a.Missing = "would get nothing new: " + strings.ReplaceAll(err.Error(), "\n", ", ")
			return a
		}
		q.Spec = &spec
	}
	p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{
		Namespace: q.Cluster, Name: "preview-" + strings.ToLower(rand.Text()[:12]),
	}}
	p.Spec = v1alpha1.WorkPreviewSpec{WorkName: q.Work, Work: q.Spec}
	if err := hub.Create(asking, p); err != nil {
		a.Missing = refusal(err, q.Cluster)
		return a
	}
	ctx, cancel = context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		defer cancel()
		_ = hub.Delete(ctx, p) // else the hub does, in some minutes
	}()
	var answered *metav1.Condition
	err = hub.Await(ctx, p, func() bool {
		answered = meta.FindStatusCondition(p.Status.Conditions, muster.ConditionPreviewed)
		return answered != nil
	})
	switch {
	case answered == nil && ctx.Err() != nil:
		a.Missing = fmt.Sprintf("did not answer in %s", timeout)
	case answered == nil:
		a.Missing = fmt.Sprintf("can't be asked: %v", err)
	case answered.Status != metav1.ConditionTrue:
		a.Missing = "could not find out: " + answered.Message
	default:
		a.Objects, a.MoreObjects = p.Status.Objects, int(p.Status.MoreObjects)
	}
	return a
}

// unable is why it makes no sense to ask a cluster, as the hub has it; empty when it does, and
// when the user may not read clusters.
func unable(mc *clusterv1.ManagedCluster, err error) string {
	switch {
	case apierrors.IsNotFound(err):
		return "is not in the fleet"
	case err != nil:
		return ""
	case mc.Annotations[muster.WorkPreviewsAnnotation] != "true":
		return "can't be asked: its agent is Open Cluster Management's, is older than previews, or has yet to join"
	}
	available := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
	if available != nil && available.Status != metav1.ConditionTrue {
		return "is not available: " + available.Message
	}
	return ""
}

// refusal is why the hub takes no preview.
func refusal(err error, cluster string) string {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "was not asked, as the hub did not take the question in time"
	case apierrors.IsForbidden(err) && errors.As(err, &status):
		return "can't be asked: " + status.Status().Message
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("can't be asked: the hub has no previews, or no namespace %s", cluster)
	}
	return fmt.Sprintf("can't be asked: %v", err)
}

// Decided are the clusters that a placement has selected.
type Decided struct {
	Placement string
	Clusters  []string
}

// Selected are the clusters that a placement's decisions name, each once and in order.
func Selected(decisions []clusterv1beta1.PlacementDecision) []string {
	var names []string
	for _, d := range decisions {
		for _, c := range d.Status.Decisions {
			names = append(names, c.ClusterName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OfReplicaSet are the questions about the works of a replica set: those that there are,
// where they stay, and those that are to be made. Works of clusters that are no longer
// selected would be deleted. own is the set's template where it has an override, and nil
// otherwise.
func OfReplicaSet(
	set *workv1alpha1.ManifestWorkReplicaSet, own *override.Template, decided []Decided, works []workv1.ManifestWork,
) []Question {
	type place struct{ placement, cluster string }
	names := map[place]string{}
	for _, w := range works {
		names[place{w.Labels[work.PlacementNameLabel], w.Namespace}] = w.Name
	}
	var questions []Question
	for _, d := range decided {
		for _, c := range d.Clusters {
			at := place{d.Placement, c}
			q := Question{Cluster: c, Work: set.Name, Spec: &set.Spec.ManifestWorkTemplate, Own: own}
			if name := names[at]; name != "" {
				q.Work = name
			}
			delete(names, at)
			questions = append(questions, q)
		}
	}
	for at, name := range names {
		questions = append(questions, Question{Cluster: at.cluster, Work: name})
	}
	slices.SortStableFunc(questions, func(a, b Question) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return questions
}
