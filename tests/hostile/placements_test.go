package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

const ten = "[0,1,2,3,4,5,6,7,8,9]"

// loops are loops in each other.
func loops(depth int, over, body string) string {
	for i := depth - 1; i >= 0; i-- {
		body = fmt.Sprintf("%s.all(v%d, %s)", over, i, body)
	}
	return body
}

// expressing is a placement that selects by expressions.
func expressing(namespace, name string, expressions ...string) *clusterv1beta1.Placement {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	// No agents answer for these clusters.
	p.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
	if len(expressions) > 0 {
		p.Spec.Predicates = make([]clusterv1beta1.ClusterPredicate, 1)
		p.Spec.Predicates[0].RequiredClusterSelector.CELSelector.CELExpressions = expressions
	}
	return p
}

// bind makes a namespace of a set.
func (w *world) bind(t testing.TB, namespace, set string) {
	t.Helper()
	testkit.Must(t, w.admin(t).Create(context.Background(), &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
	}))
}

// A tenant whose placements cost as much as can be written delays nobody else's,
// and the hub neither at its end nor at its start.
func TestCostlyPlacements(t *testing.T) {
	ctx := context.Background()
	w := ownWorld(t)
	for i := range 4 {
		testkit.Must(t, w.admin(t).Create(ctx, &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("costly-%d", i), Annotations: map[string]string{"json": "[" + strings.Repeat("1,", 20_000) + "1]"}},
			Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
		}))
	}
	placements := rbacv1.PolicyRule{APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"placements"}, Verbs: []string{"*"}}
	tenant := testfleet.Client(t, w.Tenant(t, "costly-tenant", "tenant", placements))
	other := testfleet.Client(t, w.Tenant(t, "costly-other", "other", placements))
	w.bind(t, "costly-tenant", "default")
	w.bind(t, "costly-other", "default")

	text := "'[" + strings.Repeat("1,", 20_000) + "1]'.parseJSON() != null"
	many := expressing("costly-tenant", "many", strings.Split(strings.Repeat("true ", 65), " ")[:65]...)
	wide := expressing("costly-tenant", "wide")
	wide.Spec.Predicates = make([]clusterv1beta1.ClusterPredicate, 1)
	for i := range 10_000 {
		wide.Spec.Predicates[0].RequiredClusterSelector.LabelSelector.MatchExpressions = append(wide.Spec.Predicates[0].RequiredClusterSelector.LabelSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	for what, p := range map[string]*clusterv1beta1.Placement{
		"loops around 40 kB of JSON":   expressing("costly-tenant", "bomb", loops(5, "[1,2,3,4,5,6,7,8,9,10]", text)),
		"types that double":            expressing("costly-tenant", "bomb", "[1]"+strings.Repeat(".map(a, {a:a})", 40)+".size() > 0"),
		"expressions that double":      expressing("costly-tenant", "bomb", "optional.of(1)"+strings.Repeat(".optMap(a, a)", 60)+".hasValue()"),
		"a regular expression's steps": expressing("costly-tenant", "bomb", `managedCluster.metadata.name.matches("(abcdefghijklmnop){500}")`),
		"65 expressions":               many,
		"10,000 requirements":          wide,
	} {
		refusedFor(t, "a placement of "+what, tenant.Create(ctx, p), "spec.predicates")
	}
	// What can't be known beforehand is accepted, and costs its author.
	over := "managedCluster.metadata.annotations.json.split(',')"
	for i := range 20 {
		testkit.Must(t, tenant.Create(ctx, expressing("costly-tenant", fmt.Sprintf("costly-%d", i),
			loops(6, ten, fmt.Sprintf("v0+v1+v2+v3+v4+v5>=%d", -i)), loops(3, over, fmt.Sprintf("v0+v1+v2 != '%d'", i)), loops(4, "managedCluster.metadata.annotations.json.parseJSON()", "v0 > 0"))))
	}
	search := "(v+v).indexOf(v+'b') == -1"
	for range 4 {
		search = "[v+v].all(v, " + search + ")"
	}
	for i, text := range []string{
		"['" + strings.Repeat("a", 4000) + "'].all(v, " + search + ")",
		over + ".all(k, managedCluster.metadata.annotations.json.size() > 0)",
		"managedCluster.metadata.annotations.json.findAll('(?:[^a]*a)|1').size() == 0",
	} {
		testkit.Must(t, tenant.Create(ctx, expressing("costly-tenant", fmt.Sprintf("worst-%d", i), text)))
	}
	selects := func(name string, expressions ...string) {
		t.Helper()
		start := time.Now()
		p := expressing("costly-other", name, expressions...)
		testkit.Must(t, other.Create(ctx, p))
		testkit.Eventually(t, func() error {
			if err := other.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			if p.Status.NumberOfSelectedClusters != 4 {
				return fmt.Errorf("%s selects %d clusters: %+v", name, p.Status.NumberOfSelectedClusters, p.Status.Conditions)
			}
			return nil
		})
		t.Logf("%s beside 20 costly placements: %s", name, time.Since(start).Round(time.Millisecond))
		harmless(t, "a placement beside costly ones: "+name, nil)
	}
	selects("ordinary")
	selects("expression", `managedCluster.metadata.name.startsWith("costly-")`)

	costly := expressing("costly-tenant", "costly-0")
	testkit.Eventually(t, func() error {
		if err := tenant.Get(ctx, client.ObjectKeyFromObject(costly), costly); err != nil {
			return err
		}
		c := meta.FindStatusCondition(costly.Status.Conditions, cluster.ConditionPlacementSatisfied)
		if c == nil || !strings.Contains(c.Message, "was given up because it costs more than") {
			return fmt.Errorf("the costly placement does not say what is wrong: %+v", c)
		}
		return nil
	})

	// The hub ends while they are being judged, and schedules others when it is back.
	testkit.Must(t, w.process.Stop())
	testkit.Must(t, w.process.Restart())
	testkit.Eventually(t, func() error { return other.Create(ctx, expressing("costly-other", "probe")) })
	selects("restarted")
}
