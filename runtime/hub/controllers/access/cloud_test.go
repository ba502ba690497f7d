package access_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What the conditions say in states that several tests end in.
const (
	selected = " Selected:True/ClustersSelected"
	underWay = selected + " Applied:False/InProgress Ready:False/InProgress"
	failed   = selected + " Applied:False/ClustersFailed Ready:False/ClustersFailed"
	applied  = selected + " Applied:True/AllClusters Ready:False/AgentUnable"
)

func TestClustersAreProbedBeforeTheyGetTheirWork(t *testing.T) {
	w := newCloud(t, "a b c", "a b")
	w.pass("prod")
	w.must("prod", "a:probe b:probe")
	w.mustReport("prod", "2/0/0 a:Probing b:Probing"+underWay)
	w.answer("prod", false)
	w.pass("prod")
	w.must("prod", "a:work b:work")
	w.pass("prod")
	w.mustReport("prod", "2/0/0 a:Applying b:Applying"+underWay)
	w.apply("prod")
	w.pass("prod")
	w.mustReport("prod", "2/2/0"+applied)
	if lc := w.get("prod"); !slices.Equal(lc.Finalizers, []string{muster.AccessFinalizer}) {
		t.Errorf("the finalizers are %v", lc.Finalizers)
	}
}

func TestACloudIsReadyWhenItsAgentsGiveAccess(t *testing.T) {
	w := newCloud(t, "a", "a")
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.full("a")}}
	w.Merge(mc, `{"metadata":{"annotations":{"agent.open-cluster-management.io/user-access":"Certificate,Token"}}}`)
	w.settle("prod")
	w.mustReport("prod", "1/1/0"+selected+" Applied:True/AllClusters Ready:True/AllClusters")
}

func TestNothingIsWrittenWhenNothingChanged(t *testing.T) {
	w := newCloud(t, "a b", "a b")
	w.request("r", "prod", "a", "jo", 1)
	for _, x := range []struct {
		name   string
		change func()
	}{
		{"at first", func() {}},
		{"when the probes have answered", func() { w.answer("prod", false) }},
		{"when everything is applied", func() { w.apply("prod") }},
		{"when a cluster has left", func() { w.place("p", "a") }},
	} {
		x.change()
		w.pass("prod")
		w.pass("prod")
		if n := w.writes.During(func() { w.pass("prod") }); n != 0 {
			t.Errorf("%s: %d writes", x.name, n)
		}
	}
}

func TestAnExistingNamespaceIsNotTakenOver(t *testing.T) {
	w := newCloud(t, "a", "a")
	w.pass("prod")
	w.answer("prod", true)
	w.pass("prod")
	w.pass("prod")
	w.must("prod", "a:probe")
	w.mustReport("prod", "1/0/1 a:NamespaceExists"+failed)
	if message := w.get("prod").Status.Clusters.Failing[0].Message; !strings.Contains(message, w.name+"-apps") || !strings.Contains(message, "Adopt") {
		t.Errorf("the message is %q", message)
	}
	w.answer("prod", false) // somebody has deleted it
	w.pass("prod")
	w.must("prod", "a:work")
}

func TestAnExistingNamespaceIsAdoptedWhenAskedForAndKept(t *testing.T) {
	w := newCloud(t, "a", "a", func(s *v1alpha1.LogicalCloudSpec) {
		s.Namespace.Existing, s.Namespace.OnDelete = v1alpha1.ExistingAdopt, v1alpha1.OnDeleteDelete
	})
	w.pass("prod")
	w.answer("prod", true)
	w.pass("prod")
	w.must("prod", "a:work")
	mw := w.work("prod", "a")
	if mw.Annotations[muster.AdoptedAnnotation] != "true" || mw.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyTypeSelectivelyOrphan {
		t.Errorf("the work is %+v, %+v", mw.Annotations, mw.Spec.DeleteOption)
	}
	w.apply("prod")
	w.pass("prod") // the work stays as it is
	if again := w.work("prod", "a"); again.Generation != mw.Generation {
		t.Error("the work was written again")
	}
}

// A namespace that stayed in the cluster is the cloud's when the cluster returns,
// and still counts as adopted if it once was.
func TestTheOwnNamespaceIsTakenAgain(t *testing.T) {
	for _, adopted := range []string{"", "true"} {
		w := newCloud(t, "a", "a", func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.OnDelete = v1alpha1.OnDeleteDelete })
		w.pass("prod")
		w.answer("prod", true, "cloud="+muster.CloudID(w.name, "prod"), "hub="+w.hubID(), "adopted="+adopted)
		w.pass("prod")
		w.must("prod", "a:work")
		if got := w.work("prod", "a").Annotations[muster.AdoptedAnnotation]; got != adopted {
			t.Errorf("the work is adopted: %q, want %q", got, adopted)
		}
	}
}

func TestANamespaceOfAnotherHubIsNeverTaken(t *testing.T) {
	w := newCloud(t, "a", "a", func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.Existing = v1alpha1.ExistingAdopt })
	w.pass("prod")
	w.answer("prod", true, "cloud="+muster.CloudID(w.name, "prod"), "hub=another")
	w.pass("prod")
	w.must("prod", "a:probe")
	w.mustReport("prod", "1/0/1 a:NamespaceExists"+failed)
}

func TestOfTwoCloudsWithOneNamespaceTheFirstHasIt(t *testing.T) {
	w := newCloud(t, "a b", "a b")
	w.place("q", "a")
	w.cloud("zwei", func(s *v1alpha1.LogicalCloudSpec) { s.Placements[0].Name = "q" })
	w.pass("zwei") // before the older one
	w.must("zwei", "")
	w.mustReport("zwei", "1/0/1 a:NamespaceTaken"+failed)
	if message := w.get("zwei").Status.Clusters.Failing[0].Message; !strings.Contains(message, w.name+"/prod") {
		t.Errorf("the message is %q", message)
	}
	w.settle("prod")
	w.must("prod", "a:work b:work")

	// What is given up can be had, once nothing of it is left.
	w.place("p", "b")
	w.pass("prod")
	w.pass("zwei")
	w.must("zwei", "")
	w.leave("prod")
	w.pass("zwei")
	w.must("zwei", "a:probe")
	w.answer("zwei", false)
	w.pass("zwei")
	w.must("zwei", "a:work")

	// The one that has it keeps it, though the other is older.
	w.place("p", "a b")
	w.pass("prod")
	w.pass("zwei")
	w.must("prod", "b:work")
	w.must("zwei", "a:work")
	w.mustReport("prod", "2/1/1 a:NamespaceTaken"+failed)
}

func TestKeysOfLiveRequestsAreBound(t *testing.T) {
	w := newCloud(t, "a b", "a b")
	w.settle("prod")
	first := w.request("first", "prod", "a", "jo", 1)
	w.request("second", "prod", "a", "eve", 2) // no grant names her
	w.request("third", "other", "a", "jo", 3)
	w.pass("prod")
	if a, b := w.bound("prod", "a"), w.bound("prod", "b"); a != "1" || b != "" {
		t.Errorf("bound are %q and %q, want 1 and nothing", a, b)
	}
	w.mustReport("prod", "2/1/0 a:Applying"+underWay)
	first.Finalizers = []string{muster.AccessFinalizer}
	w.Must(w.Update(context.Background(), first))
	w.Must(w.Delete(context.Background(), first))
	w.pass("prod")
	if a := w.bound("prod", "a"); a != "" {
		t.Errorf("a withdrawn key is bound: %q", a)
	}
}

func TestUsersWhoLoseTheirGrantLoseTheirKeys(t *testing.T) {
	w := newCloud(t, "a", "a")
	w.settle("prod")
	w.request("r", "prod", "a", "jo", 1)
	w.pass("prod")
	w.change("prod", func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Users = []string{"al"} })
	w.pass("prod")
	if a := w.bound("prod", "a"); a != "" {
		t.Errorf("bound are %q", a)
	}
}

func TestAnAccessRoleThatIsGoneGivesNothing(t *testing.T) {
	w := newCloud(t, "a", "a")
	w.settle("prod")
	w.request("r", "prod", "a", "jo", 1)
	w.pass("prod")
	role := &v1alpha1.AccessRole{ObjectMeta: metav1.ObjectMeta{Name: w.role()}}
	w.Must(w.Delete(context.Background(), role))
	w.pass("prod")
	if a := w.bound("prod", "a"); a != "" {
		t.Errorf("bound are %q", a)
	}
	w.apply("prod")
	w.pass("prod")
	w.mustReport("prod", "1/1/0"+selected+" Applied:True/AllClusters Ready:False/GrantsFailed")
}

func TestAClusterThatIsNotSelectedAnyMoreLosesItsWork(t *testing.T) {
	w := newCloud(t, "a b", "a b")
	w.settle("prod")
	w.place("p", "b")
	w.pass("prod")
	w.must("prod", "a:work(going) b:work")
	if mw := w.work("prod", "a"); mw.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyTypeSelectivelyOrphan {
		t.Errorf("the namespace goes: %+v", mw.Spec.DeleteOption)
	}
	w.mustReport("prod", "1/1/0 a:Leaving"+applied)
	w.leave("prod")
	w.pass("prod")
	w.mustReport("prod", "1/1/0"+applied)
}

// A cluster that moves from one decision to another is in none for a moment.
func TestWorksStayWhileDecisionsAreRewritten(t *testing.T) {
	w := newCloud(t, "a b", "a b")
	w.settle("prod")
	d := &clusterv1beta1.PlacementDecision{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Namespace: w.name, Name: "p-decision-0"}, d))
	d.Status.Decisions = d.Status.Decisions[:1]
	w.Must(w.Status().Update(context.Background(), d))
	w.pass("prod")
	w.must("prod", "a:work b:work")
}

// Agents decide by the spec that they applied last. A namespace that is to be kept
// would go with a work whose last change they have not seen.
func TestNamespacesAreKeptThoughThatWasDecidedLast(t *testing.T) {
	w := newCloud(t, "a", "a", func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.OnDelete = v1alpha1.OnDeleteDelete })
	w.request("r", "prod", "a", "jo", 1)
	w.settle("prod")
	w.change("prod", func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.OnDelete = v1alpha1.OnDeleteKeep })
	w.Must(w.Delete(context.Background(), w.get("prod")))
	w.pass("prod")
	w.pass("prod")
	w.must("prod", "a:work")
	if mw := w.work("prod", "a"); mw.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyTypeSelectivelyOrphan || w.bound("prod", "a") != "" {
		t.Errorf("the work is %+v, %+v", mw.Annotations, mw.Spec.DeleteOption)
	}
	w.apply("prod")
	w.pass("prod")
	w.must("prod", "a:work(going)")
}

func TestADeniedClusterGivesNobodyAccess(t *testing.T) {
	w := newCloud(t, "a b", "a")
	w.request("r", "prod", "a", "jo", 1)
	w.settle("prod")
	for _, c := range []string{"a", "b"} {
		w.Merge(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.full(c)}}, `{"spec":{"hubAcceptsClient":false}}`)
	}
	w.place("p", "a b")
	w.pass("prod")
	w.must("prod", "a:work")
	if a := w.bound("prod", "a"); a != "" {
		t.Errorf("bound are %q", a)
	}
	w.mustReport("prod", "2/0/2 a:ClusterNotAccepted b:ClusterNotAccepted"+failed)
	w.Merge(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.full("a")}}, `{"spec":{"hubAcceptsClient":true}}`)
	w.pass("prod")
	if a := w.bound("prod", "a"); a != "1" {
		t.Errorf("bound are %q after the cluster was accepted again", a)
	}
}

// A decision can name any cluster. Only one of a set that is bound to the namespace
// counts.
func TestAForeignClusterGetsNothing(t *testing.T) {
	w := newCloud(t, "a", "a")
	other := newCloudWorld(t, "x")
	d := &clusterv1beta1.PlacementDecision{}
	w.Must(w.Get(context.Background(), types.NamespacedName{Namespace: w.name, Name: "p-decision-0"}, d))
	d.Status.Decisions[0].ClusterName = other.full("x")
	w.Must(w.Status().Update(context.Background(), d))
	w.pass("prod")
	w.must("prod", "")
	w.mustReport("prod", "0/0/0 Selected:False/NoClusters Applied:False/NoClusters Ready:False/NoClusters")
}

func TestAMissingPlacementIsNamed(t *testing.T) {
	w := newCloud(t, "a", "a", func(s *v1alpha1.LogicalCloudSpec) {
		s.Placements = append(s.Placements, v1alpha1.PlacementReference{Name: "tpyo"})
	})
	w.pass("prod")
	w.mustReport("prod", "1/0/0 a:Probing Selected:False/PlacementNotFound Applied:False/InProgress Ready:False/InProgress")
}

func TestADeletedCloudGoesWhenNothingIsLeftInClusters(t *testing.T) {
	w := newCloud(t, "a b", "a b")
	w.settle("prod")
	w.Must(w.Delete(context.Background(), w.get("prod")))
	w.pass("prod")
	w.must("prod", "a:work(going) b:work(going)")
	w.mustReport("prod", "0/0/0 a:Leaving b:Leaving"+applied+" Deleting:True/ClustersLeft")
	w.pass("prod")
	w.leave("prod")
	w.pass("prod")
	if err := w.Get(context.Background(), types.NamespacedName{Namespace: w.name, Name: "prod"}, &v1alpha1.LogicalCloud{}); !apierrors.IsNotFound(err) {
		t.Errorf("the cloud is still there: %v", err)
	}
}

func TestWhatAnAgentCouldNotApplyIsReported(t *testing.T) {
	w := newCloud(t, "a", "a")
	w.settle("prod")
	mw := w.work("prod", "a")
	mw.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ResourceQuota", Name: "main"},
		Conditions: []metav1.Condition{{
			Type: work.ConditionApplied, Status: metav1.ConditionFalse, Reason: "x", Message: "quotas are full", LastTransitionTime: metav1.NewTime(noon),
		}},
	}}
	w.agent(mw, work.ConditionApplied, metav1.ConditionFalse)
	w.pass("prod")
	w.mustReport("prod", "1/0/1 a:ApplyFailed"+failed)
	if message := w.get("prod").Status.Clusters.Failing[0].Message; message != "ResourceQuota main: quotas are full" {
		t.Errorf("the message is %q", message)
	}
}

func TestAtMostTenClustersAreNamed(t *testing.T) {
	names := "a b c d e f g h i j k l"
	w := newCloud(t, names, names)
	w.pass("prod")
	if n := len(w.get("prod").Status.Clusters.Failing); n != 10 {
		t.Errorf("%d clusters are named, want 10", n)
	}
}

func TestWhatOthersAddToAWorkStays(t *testing.T) {
	w := newCloud(t, "a", "a")
	w.settle("prod")
	mw := w.work("prod", "a")
	mw.Annotations["other"] = "stays"
	mw.Spec.DeleteOption = nil
	w.Must(w.Update(context.Background(), mw))
	w.pass("prod")
	again := w.work("prod", "a")
	if again.Annotations["other"] != "stays" || again.Spec.DeleteOption == nil || !slices.Equal(again.Finalizers, mw.Finalizers) {
		t.Errorf("the work is %+v, %+v", again.ObjectMeta, again.Spec.DeleteOption)
	}
}
