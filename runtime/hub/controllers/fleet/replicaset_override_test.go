package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// regional is an override with the value of a label.
const regional = `{values: [{name: REGION, label: region}]}`

// newOverridden is a world whose set, of a version that is the cluster's region, names the
// WorkOverride "differs".
func newOverridden(
	t testing.TB,
	clusters, groups string,
	strategy ...clusterv1alpha1.RolloutStrategy,
) *replicaSetWorld {
	t.Helper()
	w := newReplicaSetWorld(t, strings.Fields(clusters)...)
	w.controller = w.overriding()
	w.place("p", groups)
	w.create(ref("p", strategy...))
	w.version("{{REGION}}")
	w.annotate(muster.OverrideAnnotation, "differs")
	return w
}

// overriding is a controller with overrides.
func (w *replicaSetWorld) overriding() *replicaset.Controller {
	return replicaset.NewController(w.counting, w.counting, w.events, w.clock,
		replicaset.Options{Overrides: true, ManifestLimit: 50 << 10})
}

// override makes the WorkOverride, or changes it, and returns its digest.
func (w *replicaSetWorld) override(spec string) string {
	w.Helper()
	o := &musterv1alpha1.WorkOverride{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "differs"}}
	_ = w.Get(context.Background(), client.ObjectKeyFromObject(o), o)
	o.Spec = musterv1alpha1.WorkOverrideSpec{}
	w.Must(yaml.UnmarshalStrict([]byte(spec), &o.Spec))
	if o.UID == "" {
		w.Must(w.Create(context.Background(), o))
	} else {
		w.Must(w.Update(context.Background(), o))
	}
	return override.Digest(o.Spec)
}

// labels give clusters the label region, as in "a=eu b=us"; without a value they lose it.
func (w *replicaSetWorld) labels(list string) {
	w.Helper()
	for field := range strings.FieldsSeq(list) {
		name, region, _ := strings.Cut(field, "=")
		mc := w.cluster(name)
		if mc.Labels["region"] = region; region == "" {
			delete(mc.Labels, "region")
		}
		w.Must(w.Update(context.Background(), mc))
	}
}

// mustSay fails unless the condition Overridden has a reason, and its message these texts.
func (w *replicaSetWorld) mustSay(reason string, texts ...string) {
	w.Helper()
	c := meta.FindStatusCondition(w.set().Status.Conditions, muster.ConditionOverridden)
	if c == nil {
		if reason != "" {
			w.Errorf("there is no condition, want %s", reason)
		}
		return
	}
	if (c.Status == metav1.ConditionTrue) != (reason == muster.ReasonOverridden) || c.Reason != reason {
		w.Errorf("the condition is %s/%s, want %s: %s", c.Status, c.Reason, reason, c.Message)
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			w.Errorf("the condition says %q, want %q", c.Message, text)
		}
	}
}

func TestEachClusterGetsItsOwnContent(t *testing.T) {
	w := newOverridden(t, "a b c", "0:a,b,c")
	w.override(regional)
	w.labels("a=eu b=us c=us")
	w.reconcile()
	w.mustDeliver("a/p=eu b/p=us c/p=us")
	w.mustSay(muster.ReasonOverridden)
	w.finish("a b c")
	w.mustReport(
		"PlacementVerified:True/AsExpected PlacementRolledOut:True/Complete ManifestworkApplied:True/AsExpected " +
			"total:3 applied:3 available:3 progressing:0 degraded:0",
	)

	before := w.writes.Count()
	w.labels("b=asia")
	w.reconcile()
	w.mustDeliver("a/p=eu b/p=asia c/p=us")
	if n := w.writes.Count() - before; n != 2 { // the work, and the set's status
		t.Errorf("the change of one label led to %d writes, want 2", n)
	}
	w.finish("b")

	// A change that makes no difference is no write.
	before = w.writes.Count()
	w.override(`{values: [{name: REGION, label: region, default: mars}]}`)
	w.reconcile()
	w.mustDeliver("a/p=eu b/p=asia c/p=us")
	if n := w.writes.Count() - before; n != 0 {
		t.Errorf("a change without a difference led to %d writes", n)
	}

	// Without the annotation, the template is what all get.
	w.annotate(muster.OverrideAnnotation, "")
	w.reconcile()
	w.mustDeliver("a/p={{REGION}} b/p={{REGION}} c/p={{REGION}}")
	w.mustSay("")
}

// Of a hundred clusters, the one whose label changes gets another work.
func TestOneLabelIsOneWork(t *testing.T) {
	var names, labels []string
	for i := range 100 {
		name := fmt.Sprintf("c%03d", i)
		names, labels = append(names, name), append(labels, fmt.Sprintf("%s=r%d", name, i%3))
	}
	w := newOverridden(t, strings.Join(names, " "), "0:"+strings.Join(names, ","))
	w.override(regional)
	w.labels(strings.Join(labels, " "))
	w.reconcile()
	w.finish(strings.Join(names, " "))
	generations := map[string]int64{}
	for _, mw := range w.works() {
		generations[mw.Namespace] = mw.Generation
	}
	if len(generations) != len(names) {
		t.Fatalf("%d clusters have works", len(generations))
	}
	w.labels("c042=mars")
	w.reconcile()
	for _, mw := range w.works() {
		changed := mw.Generation != generations[mw.Namespace]
		if changed != (mw.Namespace == w.full("c042")) {
			t.Errorf("the work in %s was written: %t", mw.Namespace, changed)
		}
	}
	if n := w.writes.During(func() { w.reconcile() }); n != 0 {
		t.Errorf("a pass after it writes %d times", n)
	}
}

func TestAClusterWithoutAValueKeepsWhatItHas(t *testing.T) {
	w := newOverridden(t, "a b", "0:a,b")
	w.override(regional)
	w.labels("a=eu")
	w.reconcile()
	w.mustDeliver("a/p=eu")
	w.mustSay(muster.ReasonClustersWithout, "1 of 2 clusters get nothing new", "the cluster "+w.full("b"),
		"the value REGION", "no label region")
	w.finish("a")
	w.mustReport(
		"PlacementVerified:True/AsExpected PlacementRolledOut:False/Progressing ManifestworkApplied:True/AsExpected " +
			"total:1 applied:1 available:1 progressing:0 degraded:0",
	)
	said := 0
	for len(w.events.Events) > 0 {
		if e := <-w.events.Events; strings.Contains(e, "Warning ClustersWithout") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d events say it", said)
	}

	w.labels("b=us")
	w.reconcile()
	w.mustDeliver("a/p=eu b/p=us")
	w.labels("a=")
	w.version("{{REGION}}-2")
	w.reconcile()
	w.mustDeliver("a/p=eu b/p=us-2")
}

// What a hostile agent claims concerns its own cluster alone.
func TestClaimsOfOneClusterHoldUpNoOther(t *testing.T) {
	w := newOverridden(t, "a b c", "0:a,b,c")
	w.override(`{values: [{name: REGION, claim: region}]}`)
	for name, claim := range map[string]string{"a": "eu", "b": strings.Repeat("x", 1024)} {
		mc := w.cluster(name)
		mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "region", Value: claim}}
		w.Must(w.Status().Update(context.Background(), mc))
	}
	w.version(strings.Repeat("{{REGION}}", 100))
	w.reconcile()
	if got, want := w.delivered(), "a/p="+strings.Repeat("eu", 100); got != want {
		t.Errorf("the works are %.100q, want %.100q", got, want)
	}
	w.mustSay(
		muster.ReasonClustersWithout,
		"2 of 3 clusters",
		"larger than the 51200 bytes",
		"its agent reports no claim region",
	)
}

func TestASetWaitsForItsOverride(t *testing.T) {
	w := newOverridden(t, "a", "0:a")
	w.labels("a=eu")
	w.reconcile()
	w.mustDeliver("")
	w.mustSay(
		muster.ReasonOverrideNotFound,
		"nothing is handed out: the set's namespace has no WorkOverride differs",
	)

	digest := w.override(regional)
	w.annotate(muster.OverrideAnnotation, "differs@"+digest)
	w.reconcile()
	w.mustDeliver("a/p=eu")
	w.finish("a")

	// What others make of it does not reach a cluster, nor does what does not fit.
	w.override(`{values: [{name: REGION, expression: '"evil"'}]}`)
	w.labels("a=us")
	w.reconcile()
	w.mustDeliver("a/p=eu")
	w.mustSay(muster.ReasonOverrideNotFound, "has the digest ", "asks for "+digest)
	w.mustReport(
		"PlacementVerified:True/AsExpected PlacementRolledOut:False/Progressing ManifestworkApplied:True/AsExpected " +
			"total:1 applied:1 available:1 progressing:0 degraded:0",
	)
	w.annotate(muster.OverrideAnnotation, "differs")
	w.override(`{values: [{name: REGIO, label: region}]}`)
	w.reconcile()
	w.mustDeliver("a/p=eu")
	w.mustSay(muster.ReasonOverrideUnusable, "{{REGION}} is none of the values", "did you mean {{REGIO}}?")

	// A cluster that is not selected any more loses its work nevertheless.
	w.member("b", w.name)
	w.place("p", "0:b")
	w.reconcile()
	w.mustDeliver("")
	w.place("p", "0:a")
	w.override(`{values: [{name: REGION, expression: '"eu"'}]}`)
	w.reconcile()
	w.mustDeliver("a/p=eu")

	w.controller = replicaset.NewController(w.counting, w.counting, w.events, w.clock, replicaset.Options{})
	w.reconcile()
	w.mustDeliver("a/p=eu")
	w.mustSay(muster.ReasonOverrideNotFound, "the hub's feature gate WorkOverride is off")
}

func TestAnOverrideRollsOutByTheStrategy(t *testing.T) {
	w := newOverridden(t, "a b c", "0:a 1:b 2:c",
		clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressivePerGroup})
	w.override(regional)
	w.labels("a=eu b=eu c=eu")
	for _, name := range []string{"a", "b", "c"} {
		w.reconcile()
		w.finish(name)
	}
	w.mustDeliver("a/p=eu b/p=eu c/p=eu")

	w.override(`{values: [{name: REGION, expression: 'managedCluster.metadata.labels["region"] + "-2"'}]}`)
	w.reconcile()
	w.mustDeliver("a/p=eu-2 b/p=eu c/p=eu")
	w.controller = w.overriding() // a restart of the hub
	w.reconcile()
	w.mustDeliver("a/p=eu-2 b/p=eu c/p=eu")
	w.finish("a")
	w.mustDeliver("a/p=eu-2 b/p=eu-2 c/p=eu")

	// A cluster without its value counts as one that has failed, so the next group waits.
	w.labels("b=")
	w.reconcile()
	w.mustDeliver("a/p=eu-2 b/p=eu-2 c/p=eu")
	w.labels("b=eu")
	w.reconcile()
	w.mustDeliver("a/p=eu-2 b/p=eu-2 c/p=eu")
	w.finish("b")
	w.mustDeliver("a/p=eu-2 b/p=eu-2 c/p=eu-2")
}

// A set may say itself how its works differ.
func TestAnInlineOverride(t *testing.T) {
	w := newOverridden(t, "a b", "0:a,b")
	w.labels("a=eu b=us")
	w.annotate(muster.OverrideAnnotation, `{"values":[{"name":"REGION","label":"region"}]}`)
	w.reconcile()
	w.mustDeliver("a/p=eu b/p=us")
	w.annotate(
		muster.OverrideAnnotation,
		`{"values":[{"name":"REGION","expression":"managedCluster.metadata.labels.region + '!'"}]}`,
	)
	w.reconcile()
	w.mustDeliver("a/p=eu! b/p=us!")
	w.annotate(muster.OverrideAnnotation, `{"valus":[]}`)
	w.reconcile()
	w.mustDeliver("a/p=eu! b/p=us!")
	w.mustSay(muster.ReasonOverrideUnusable, `unknown field "valus"`)
}

// The works of an override may differ in more than a value, and each cluster's are checked.
func TestPatchesForSomeClusters(t *testing.T) {
	w := newOverridden(t, "a b", "0:a,b")
	w.labels("a=eu b=us")
	w.version("1")
	w.override(
		`{overrides: [{clusterSelector: {labelSelector: {matchLabels: {region: us}}}, manifests: {kind: ConfigMap}, ` +
			`type: JSON, patch: [{op: replace, path: /data/version, value: "2"}]}]}`,
	)
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=2")
}

func TestChangesOfOverridesAndClustersLeadToPasses(t *testing.T) {
	w := newOverridden(t, "a b", "0:a,b")
	w.override(regional)
	w.labels("a=eu b=us")
	env.StartManager(w, func(m manager.Manager) error {
		return replicaset.NewController(m.GetClient(), m.GetAPIReader(), w.events, w.clock,
			replicaset.Options{Overrides: true, ManifestLimit: 50 << 10}).Register(m)
	})
	w.untilDelivered("a/p=eu b/p=us")
	w.labels("a=asia")
	w.untilDelivered("a/p=asia b/p=us")
	w.override(
		`{values: [{name: REGION, label: region}], overrides: [{manifests: {kind: ConfigMap}, type: Merge, ` +
			`patch: {data: ` +
			`{version: "{{REGION}}!"}}}]}`,
	)
	w.untilDelivered("a/p=asia! b/p=us!")
	w.labels("b=")
	w.override(regional)
	w.untilDelivered("a/p=asia b/p=us!")
	w.labels("b=us") // the cluster waits for it
	w.untilDelivered("a/p=asia b/p=us")
}
