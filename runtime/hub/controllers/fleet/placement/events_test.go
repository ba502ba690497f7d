package placement

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

func TestScoresAreNotedAsFarAsThereIsRoom(t *testing.T) {
	var many []incremental.Total
	for i := range 300 {
		many = append(many, incremental.Total{Cluster: fmt.Sprintf("cluster-%03d", i), Total: -100})
	}
	if got := scoreNote([]incremental.Total{{Cluster: "c1", Total: 200}, {Cluster: "c2", Total: -100}}); got != "c1:200 c2:-100 " {
		t.Errorf("got %q", got)
	}
	got := scoreNote(many)
	if len(got) > 1024 || len(got) < 980 || !strings.HasSuffix(got, "cluster-057:-100 ......") {
		t.Errorf("got %d bytes, %q", len(got), got)
	}
}

func TestScoresAreReportedOnceUntilTheyChange(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	c := NewController(nil, recorder, nil, scheduling.Options{})
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-decision-1"}}
	c.engine.UpsertSet(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}})
	c.engine.UpsertBinding(types.NamespacedName{Namespace: "ns", Name: "set"})
	c.engine.UpsertPlacement(p)
	reported := func() string {
		c.engine.Schedule(types.NamespacedName{Namespace: "ns", Name: "p"}, metav1.Now().Time)
		c.scored(p, d)
		select {
		case e := <-recorder.Events:
			return e
		default:
			return ""
		}
	}
	if got := reported(); got != "" {
		t.Errorf("without a cluster there is %q", got)
	}
	for _, name := range []string{"b", "a"} {
		c.engine.UpsertCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"cluster.open-cluster-management.io/clusterset": "set"}}})
	}
	if got := reported(); got != "Normal ScoreUpdate a:100 b:100 " {
		t.Errorf("told is %q", got)
	}
	if got := reported(); got != "" {
		t.Errorf("the same is told again: %q", got)
	}
	c.engine.DeleteCluster("a")
	if got := reported(); got != "Normal ScoreUpdate b:100 " {
		t.Errorf("told is %q", got)
	}
}

func TestWhatWasAmissIsReportedWithTheDecision(t *testing.T) {
	for name, x := range map[string]struct {
		warning *scheduling.Problem
		want    string
	}{
		"nothing":     {nil, "Normal DecisionUpdate Decision p-decision-1 is updated with placement p in namespace ns"},
		"a score":     {&scheduling.Problem{Plugin: "AddOn/cost/hourly", Message: "it expired"}, "Warning DecisionUpdate Decision p-decision-1 is updated with placement p in namespace ns: it expired in plugin AddOn/cost/hourly"},
		"many scores": {&scheduling.Problem{Plugin: "x", Message: strings.Repeat("é ", 1000)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			c := NewController(nil, recorder, nil, scheduling.Options{})
			p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			c.updated(p, &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: "p-decision-1"}}, x.warning)
			got := <-recorder.Events
			if x.want != "" && got != x.want {
				t.Errorf("told is %q, want %q", got, x.want)
			}
			if len(got) > 1024+len("Warning DecisionUpdate ") || strings.ToValidUTF8(got, "?") != got {
				t.Errorf("told are %d bytes: %q", len(got), got)
			}
		})
	}
}

func TestHowAChoiceCameAboutIsReported(t *testing.T) {
	for name, x := range map[string]struct {
		funnel incremental.Funnel
		result scheduling.Result
		want   string
	}{
		"all":           {incremental.Funnel{Available: 3, Matching: 3, Tolerated: 3}, scheduling.Result{Selected: 3}, "Chosen are 3 of 3 clusters"},
		"at each step":  {incremental.Funnel{Available: 40, Matching: 20, Tolerated: 15}, scheduling.Result{Selected: 3}, "Chosen are 3 of 40 clusters: 20 satisfy no predicate, 5 have taints that are not tolerated, 12 were left out at the cut"},
		"nothing":       {incremental.Funnel{Available: 2}, scheduling.Result{}, "Chosen are 0 of 2 clusters: 2 satisfy no predicate"},
		"misconfigured": {incremental.Funnel{Available: 2}, scheduling.Result{Misconfigured: &scheduling.Problem{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := explanationNote(x.funnel, x.result); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}
