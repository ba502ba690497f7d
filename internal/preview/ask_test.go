package preview_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/preview"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// hub has clusters that answer by their names.
type hub struct {
	mu   sync.Mutex
	left []string
}

func (h *hub) Cluster(_ context.Context, name string) (*clusterv1.ManagedCluster, error) {
	mc := &clusterv1.ManagedCluster{}
	switch name {
	case "gone":
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "managedclusters"}, name)
	case "hidden":
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "managedclusters"}, name, nil)
	case "upstream":
		return mc, nil
	case "away":
		mc.Status.Conditions = []metav1.Condition{{
			Type: cluster.ConditionAvailable, Status: metav1.ConditionUnknown, Message: "its lease has run out",
		}}
	}
	mc.Annotations = map[string]string{muster.WorkPreviewsAnnotation: "true"}
	return mc, nil
}

func (h *hub) Create(ctx context.Context, p *v1alpha1.WorkPreview) error {
	switch p.Namespace {
	case "denied":
		return apierrors.NewForbidden(schema.GroupResource{Resource: "workpreviews"}, p.Name, fmt.Errorf("you may not"))
	case "busy":
		<-ctx.Done()
		return ctx.Err()
	case "throttled":
		time.Sleep(20 * time.Second) // by the fake clock of synctest
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = append(h.left, p.Namespace)
	return nil
}

func (h *hub) Await(ctx context.Context, p *v1alpha1.WorkPreview, done func() bool) error {
	if p.Namespace == "silent" {
		<-ctx.Done()
		return ctx.Err()
	}
	c := metav1.Condition{Type: muster.ConditionPreviewed, Status: metav1.ConditionTrue}
	if p.Namespace == "failing" {
		c.Status, c.Message = metav1.ConditionFalse, "its API server is away"
	}
	p.Status.Conditions = []metav1.Condition{c}
	done()
	return nil
}

func (h *hub) Delete(_ context.Context, p *v1alpha1.WorkPreview) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = slices.DeleteFunc(h.left, func(n string) bool { return n == p.Namespace })
	return nil
}

// Each cluster has an answer or a reason, in the time that it was given, and no preview is
// left behind.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := map[string]string{
			"good": "", "hidden": "", "throttled": "",
			"gone":     "is not in the fleet",
			"upstream": "its agent is Open Cluster Management's",
			"away":     "is not available: its lease has run out",
			"denied":   "you may not",
			"busy":     "did not take the question in time",
			"silent":   "did not answer in 10s",
			"failing":  "could not find out: its API server is away",
		}
		var questions []preview.Question
		for name := range want {
			questions = append(questions, preview.Question{Cluster: name, Work: "w"})
		}
		h, start := &hub{}, time.Now()
		answers, err := preview.Ask(t.Context(), h, questions, 0)
		if err != nil || len(answers) != len(want) {
			t.Fatalf("%d answers: %v", len(answers), err)
		}
		for _, a := range answers {
			if w := want[a.Cluster]; (w == "") != (a.Missing == "") || !strings.Contains(a.Missing, w) {
				t.Errorf("%s: %q, want %q", a.Cluster, a.Missing, w)
			}
		}
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("it took %s", took)
		}
		if len(h.left) > 0 {
			t.Errorf("previews are left in %v", h.left)
		}
	})
}

// When the time of all is up, those that were not asked say so.
func TestAskEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var questions []preview.Question
		for range 100 {
			questions = append(questions, preview.Question{Cluster: "silent", Work: "w"})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		answers, err := preview.Ask(ctx, &hub{}, questions, 0)
		if err == nil {
			t.Error("the end of the context is no error")
		}
		last := answers[99]
		if !strings.Contains(last.Missing, "was not asked") {
			t.Errorf("the last cluster: %q", last.Missing)
		}
	})
}

func TestQuestionsAboutAReplicaSet(t *testing.T) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	set.Name = "web"
	there := func(cluster, placement string) workv1.ManifestWork {
		w := workv1.ManifestWork{}
		w.Namespace, w.Name = cluster, "web-"+cluster+"-"+placement
		w.Labels = map[string]string{work.PlacementNameLabel: placement}
		return w
	}
	decided := []preview.Decided{{Placement: "a", Clusters: []string{"new", "stays"}}, {Placement: "b",
		Clusters: []string{"stays"}}}
	works := []workv1.ManifestWork{there("stays", "a"), there("goes", "a")}
	var got []string
	for _, q := range preview.OfReplicaSet(set, nil, decided, works) {
		got = append(got, fmt.Sprintf("%s %s %t", q.Cluster, q.Work, q.Spec == nil))
	}
	want := []string{"goes web-goes-a true", "new web false", "stays web-stays-a false", "stays web false"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
