package status

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

func claim(name string, labels ...string) *clusterv1alpha1.ClusterClaim {
	c := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "v-" + name}}
	for _, l := range labels {
		c.Labels[l] = "false" // the key alone counts
	}
	return c
}

func TestClaims(t *testing.T) {
	many := []*clusterv1alpha1.ClusterClaim{claim("id.k8s.io"), claim("product.open-cluster-management.io"), claim("kubeversion.open-cluster-management.io"), claim("platform.open-cluster-management.io")}
	for _, n := range []string{"d", "b", "c", "a"} {
		many = append(many, claim(n))
	}
	for _, tc := range []struct {
		name   string
		rules  ClaimRules
		claims []*clusterv1alpha1.ClusterClaim
		want   string
		left   int
	}{
		{"none", ClaimRules{MaxCustom: 20}, nil, "", 0},
		{"reserved first, each part by name", ClaimRules{MaxCustom: 20}, many,
			"id.k8s.io kubeversion.open-cluster-management.io platform.open-cluster-management.io product.open-cluster-management.io a b c d", 0},
		{"only the others are cut", ClaimRules{MaxCustom: 2}, many,
			"id.k8s.io kubeversion.open-cluster-management.io platform.open-cluster-management.io product.open-cluster-management.io a b", 2},
		{"reserved by suffix", ClaimRules{MaxCustom: 1, ReservedSuffixes: []string{".example.com"}},
			[]*clusterv1alpha1.ClusterClaim{claim("a"), claim("z.example.com"), claim("b")}, "z.example.com a", 1},
		{"those that stay in the cluster", ClaimRules{MaxCustom: 20}, []*clusterv1alpha1.ClusterClaim{claim("a", cluster.SpokeOnlyLabel), claim("id.k8s.io", cluster.SpokeOnlyLabel), claim("b")}, "b", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, left := tc.rules.collect(tc.claims)
			var names []string
			for _, c := range got {
				names = append(names, c.Name)
				if c.Value != "v-"+c.Name {
					t.Errorf("%s has the value %q", c.Name, c.Value)
				}
			}
			if strings.Join(names, " ") != tc.want || left != tc.left {
				t.Errorf("got %q and %d left out, want %q and %d", names, left, tc.want, tc.left)
			}
		})
	}
}

func node(unschedulable bool, cpu, allocatable string) *corev1.Node {
	return &corev1.Node{
		Spec: corev1.NodeSpec{Unschedulable: unschedulable},
		Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{"cpu": resource.MustParse(cpu), "example.com/gpu": resource.MustParse("1")},
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse(allocatable)},
		},
	}
}

func list(pairs ...string) clusterv1.ResourceList {
	l := clusterv1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[clusterv1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestUnschedulableNodesCountForCapacityOnly(t *testing.T) {
	capacity, allocatable := sum([]*corev1.Node{node(false, "4", "3500m"), node(true, "2", "2"), node(false, "1", "500m")})
	if want := list("cpu", "7", "example.com/gpu", "3"); !equality.Semantic.DeepEqual(capacity, want) {
		t.Errorf("capacity %v, want %v", capacity, want)
	}
	if want := list("cpu", "4"); !equality.Semantic.DeepEqual(allocatable, want) {
		t.Errorf("allocatable %v, want %v", allocatable, want)
	}
}

func TestSumLeavesTheNodesAlone(t *testing.T) {
	n := node(false, "4", "4")
	sum([]*corev1.Node{n, n})
	if q := n.Status.Capacity["cpu"]; q.String() != "4" {
		t.Errorf("the node now has %s", q.String())
	}
}

func TestCapacityOfOthersStays(t *testing.T) {
	got := merge(list("cpu", "1", "clusters", "9"), list("cpu", "4"))
	if want := list("cpu", "4", "clusters", "9"); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := merge(nil, list()); got != nil {
		t.Errorf("a cluster without nodes has the capacity %v", got)
	}
}

func TestNodesChangeWhenTheirSizeDoes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.Node)
		same   bool
	}{
		{"a heartbeat", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready"}} }, true},
		{"another notation", func(n *corev1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("4000m") }, true},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		{"grown", func(n *corev1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("8") }, false},
		{"a device less", func(n *corev1.Node) { delete(n.Status.Capacity, "example.com/gpu") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := node(false, "4", "4"), node(false, "4", "4")
			tc.change(b)
			if got := sameNode(a, b); got != tc.same {
				t.Errorf("same: %v, want %v", got, tc.same)
			}
		})
	}
}

func TestAvailability(t *testing.T) {
	for _, tc := range []struct {
		name    string
		health  health
		failing time.Duration
		decided bool
		want    metav1.Condition
	}{
		{"well", health{code: http.StatusOK, detail: "ok"}, 0, true,
			metav1.Condition{Status: "True", Reason: "ManagedClusterAvailable", Message: "Managed cluster is available"}},
		{"unwell for a moment", health{code: 500, detail: "x"}, 19 * time.Second, false, metav1.Condition{}},
		{"unwell for long", health{code: 500, detail: "livez check failed"}, 20 * time.Second, true,
			metav1.Condition{Status: "False", Reason: "ManagedClusterKubeAPIServerUnavailable", Message: "The kube-apiserver is not ok, status code: 500, livez check failed"}},
		{"no answer for long", health{detail: "connection refused"}, time.Minute, true,
			metav1.Condition{Status: "False", Reason: "ManagedClusterKubeAPIServerUnavailable", Message: "The kube-apiserver is not ok, status code: 0, connection refused"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, decided := availability(tc.health, tc.failing)
			if tc.decided {
				tc.want.Type = "ManagedClusterConditionAvailable"
			}
			if decided != tc.decided || got != tc.want {
				t.Errorf("got %+v (decided %v), want %+v (%v)", got, decided, tc.want, tc.decided)
			}
		})
	}
}

func TestUnwantedNamespaces(t *testing.T) {
	label := cluster.ManagedNamespaceLabel("https://hub:6443")
	ns := func(name, value string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: value}}}
	}
	wanted := []clusterv1.ClusterSetManagedNamespaceConfig{{Name: "a"}, {Name: "b"}}
	got := unwanted(label, wanted, []*corev1.Namespace{ns("a", "true"), ns("c", "true"), ns("d", "false")})
	if !slices.Equal(got, []string{"c"}) {
		t.Errorf("got %q, want only c: a is wanted, d is released already", got)
	}
}

func TestNamespaceCondition(t *testing.T) {
	if c := namespaceCondition(nil); c.Status != "True" || c.Reason != "NamespaceApplied" || c.Message != "Namespace successfully applied and managed" {
		t.Errorf("got %+v", c)
	}
	if c := namespaceCondition(fmt.Errorf("quota")); c.Status != "False" || c.Reason != "NamespaceApplyFailed" || c.Message != "quota" {
		t.Errorf("got %+v", c)
	}
}

func TestAvailabilityEvent(t *testing.T) {
	mc := func(status metav1.ConditionStatus) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
		if status != "" {
			mc.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionAvailable, Status: status}}
		}
		return mc
	}
	for _, tc := range []struct {
		old, new metav1.ConditionStatus
		want     string
	}{
		{"", "True", "Normal Available The c1 is successfully imported, and it is managed by the hub cluster. Its apieserver is available"},
		{"Unknown", "True", "Normal Available The c1 is successfully imported, and it is managed by the hub cluster. Its apieserver is available"},
		{"True", "False", "Warning Unavailable The c1 is successfully imported. However, its Kube API server is unavailable"},
		{"True", "True", ""},
		{"", "", ""},
	} {
		got := ""
		if e := availabilityEvent(mc(tc.old), mc(tc.new), "klusterlet-agent-x", clocktesting.NewFakePassiveClock(time.Unix(1, 0))); e != nil {
			got = strings.Join([]string{e.Type, e.Reason, e.Note}, " ")
			if e.Namespace != "c1" || e.Action == "" || e.ReportingInstance == "" || e.ReportingController != "klusterlet-agent" {
				t.Errorf("the hub would refuse %+v", e)
			}
		}
		if got != tc.want {
			t.Errorf("from %q to %q: got %q, want %q", tc.old, tc.new, got, tc.want)
		}
	}
}

func TestMissingClientConfigs(t *testing.T) {
	have := []clusterv1.ClientConfig{{URL: "https://a", CABundle: []byte("by hand")}}
	got := missingConfigs(have, []clusterv1.ClientConfig{{URL: "https://a"}, {URL: "https://b"}})
	if len(got) != 1 || got[0].URL != "https://b" {
		t.Errorf("got %+v, want only https://b", got)
	}
}
