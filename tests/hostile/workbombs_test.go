package hostile

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// maxAgentMemory is what an agent may take at the most, whatever its works ask.
const maxAgentMemory = 300 << 20

// A hostile author of works tries to make the agent run out of memory or time,
// or to keep it from the works of others.
func TestWorksThatCostTooMuch(t *testing.T) {
	m := hub.join(t, "hostile-bombs")
	author := testfleet.Client(t, hub.Tenant(t, m.name, "author",
		rbacv1.PolicyRule{APIGroups: []string{work.GroupName}, Resources: []string{"manifestworks", "manifestworkreplicasets"}, Verbs: []string{"get", "list", "create", "update", "patch", "delete"}},
	))
	t.Run("expressions that the hub refuses", func(t *testing.T) { refuseExpressions(t, author, m.name) })
	t.Run("expressions that take long", func(t *testing.T) { slowExpressions(t, author, m) })
	t.Run("the worst input of each language", func(t *testing.T) { worstInputs(t, author, m) })
	t.Run("a status that is too large", func(t *testing.T) { largeStatus(t, author, m) })
	t.Run("values that the API server prints", func(t *testing.T) { printedValues(t, author, m) })
	memory, err := peakMemory(m.agent.PID())
	if err == nil && memory > maxAgentMemory {
		err = fmt.Errorf("it took %d MiB", memory>>20)
	}
	harmless(t, "the agent's memory", err)
	harmless(t, "ending the agent while it has all that to do", m.agent.Stop())
}

// peakMemory is the most memory that a process has ever had.
func peakMemory(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("the process is gone: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in %s", data)
}

func ignoring(jq ...string) workv1.ManifestConfigOption {
	return workv1.ManifestConfigOption{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"},
		UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{
			IgnoreFields: []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JQPathExpressions: jq}},
		}},
	}
}

func reporting(paths ...string) workv1.ManifestConfigOption {
	o := workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"}}
	rule := workv1.FeedbackRule{Type: workv1.FeedbackTypeJSONPaths}
	for i, p := range paths {
		rule.JSONPaths = append(rule.JSONPaths, workv1.JSONPath{Name: fmt.Sprint("v", i), Path: p})
	}
	o.FeedbackRules = []workv1.FeedbackRule{rule}
	return o
}

func refuseExpressions(t *testing.T, author client.Client, cluster string) {
	ctx := context.Background()
	many := make([]string, 101)
	for i := range many {
		many[i] = ".data.k"
	}
	for what, x := range map[string]struct {
		option workv1.ManifestConfigOption
		words  string
	}{
		"jq that doubles a text":           {ignoring(`.data[(reduce range(34) as $i ("x"; . + .))]`), "is more than a path"},
		"jq that repeats a text":           {ignoring(`.data["x" * 1000000000]`), "is more than a path"},
		"jq that never ends":               {ignoring(`.data | last(repeat(.))`), "is more than a path"},
		"jq with a definition":             {ignoring(`def f: f, f; f`), "is more than a path"},
		"jq that reads the environment":    {ignoring(`.data[env.HOME]`), "is more than a path"},
		"jq that searches everything":      {ignoring(`..`), "is more than a path"},
		"jq with a limit":                  {ignoring(`limit(1; repeat(.))`), "is more than a path"},
		"a long jq path":                   {ignoring(strings.Repeat(".a", 1000)), "more than the 1024"},
		"many jq paths":                    {ignoring(many...), "more than 100 paths"},
		"a JSONPath of many descents":      {reporting(`{...*...*...*...*...*...*...*...*}`), `more than one ".."`},
		"one of two":                       {reporting(`..a..b`), `more than one ".."`},
		"one of a range":                   {reporting(`{range .data}{.k}{end}`), "range"},
		"descents in a filter":             {reporting(`.items[?(@..a == @..b)]`), `more than one ".."`},
		"a long JSONPath":                  {reporting(strings.Repeat(".*", 600)), "more than the 1024"},
		"many steps":                       {reporting(strings.Repeat(".*", 200)), "more than 100 steps"},
		"many JSONPaths":                   {reporting(many...), "more than 100 paths"},
		"more than one path":               {reporting(`{.data.a}{.data.b}`), "more than one path"},
		"what is not a JSONPath":           {reporting(`.data[(`), "cannot be used"},
		"a JSONPath of ignored fields":     {workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"}, UpdateStrategy: &workv1.UpdateStrategy{Type: "ServerSideApply", ServerSideApply: &workv1.ServerSideApplyConfig{IgnoreFields: []workv1.IgnoreField{{Condition: "OnSpokePresent", JSONPaths: []string{"..a..b.c"}}}}}}, `more than one ".."`},
		"more condition rules than anyone": {workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"}, ConditionRules: manyRules(21)}, "more than 20"},
	} {
		w := newWork(t, cluster, "bomb", configMap("default", "bomb"))
		w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{x.option}
		refusedFor(t, "a work with "+what, author.Create(ctx, w), "spec.manifestConfigs[0]", x.words)
		set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "bomb"}}
		set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
		set.Spec.ManifestWorkTemplate = w.Spec
		refusedFor(t, "a replica set with "+what, author.Create(ctx, set), "spec.manifestWorkTemplate.manifestConfigs[0]", x.words)
	}
	// What people write for good reasons is let in.
	for i, jq := range []string{`.spec.replicas`, `.metadata.annotations["x"]`, `.webhooks[0]?`, `.spec.template.spec.containers[] | select(.name == "x") | .image`, `.webhooks[]?.clientConfig.caBundle`} {
		w := newWork(t, cluster, fmt.Sprint("good-", i), configMap("default", fmt.Sprint("good-", i)))
		w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{ignoring(jq)}
		testkit.Must(t, author.Create(ctx, w, client.DryRunAll))
	}
}

func manyRules(n int) []workv1.ConditionRule {
	var out []workv1.ConditionRule
	for i := range n {
		out = append(out, workv1.ConditionRule{Type: workv1.ConditionRuleTypeCEL, Condition: fmt.Sprint("C", i), CELExpressions: []string{"true"}})
	}
	return out
}

// proceeds waits until another author's work, made now, is carried out.
func proceeds(t *testing.T, m *member, name string) {
	t.Helper()
	ctx, admin := context.Background(), hub.admin(t)
	w := newWork(t, m.name, name, configMap("default", name))
	testkit.Must(t, admin.Create(ctx, w))
	testkit.Eventually(t, func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionAvailable) {
			return fmt.Errorf("the work %s is not carried out: %+v\n%s", name, w.Status.Conditions, m.agent.Log())
		}
		return nil
	})
}

// slowExpressions has the agent evaluate what it is let in with: rules on many
// objects, each as costly as one may be.
func slowExpressions(t *testing.T, author client.Client, m *member) {
	ctx := context.Background()
	loop := "true"
	for _, v := range "fedcba" {
		loop = fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].all(%c, %s)", v, loop)
	}
	double := `["xxxxxxxxxxxxxxxx"]` + strings.Repeat(`.map(x, x + x)`, 12)
	var objects []any
	for i := range 60 {
		objects = append(objects, configMap("default", fmt.Sprint("slow-", i)))
	}
	for i := range 15 { // more than the agent has workers
		w := newWork(t, m.name, fmt.Sprint("slow-", i), objects...)
		o := reporting("..k", ".data.k", "..[0]")
		for j := range 5 {
			o.ConditionRules = append(o.ConditionRules, workv1.ConditionRule{
				Type: workv1.ConditionRuleTypeCEL, Condition: fmt.Sprint("Slow", j),
				CELExpressions: []string{loop + fmt.Sprintf(" || %d == %d", i, j)}, MessageExpression: double + "[0]",
			})
		}
		w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{o}
		w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
		if err := author.Create(ctx, w); err != nil {
			refused(t, "rules that cost too much", err)
		}
	}
	for i := range 3 {
		proceeds(t, m, fmt.Sprint("beside-slow-", i))
	}
	attempts.Add(1)
	refusals.Add(1) // of keeping others' works from being carried out
}

// worstInputs has the agent evaluate, in every language that works have, what takes
// longest for its length, in more works than it has workers.
func worstInputs(t *testing.T, author client.Client, m *member) {
	ctx := context.Background()
	numbers := make([]int, 50_000)
	object := func(name string) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": name},
			"data": map[string]any{"text": strings.Repeat("a", 100_000)}, "a": numbers, "b": numbers,
		}
	}
	bind := func(last string) string {
		for range 5 {
			last = "[v + v].all(v, " + last + ")"
		}
		return `["` + strings.Repeat("a", 4000) + `"].all(v, ` + last + ")"
	}
	double := "." + strings.Repeat("|(.,.)", 12)
	expressions := func(text string) workv1.ManifestConfigOption {
		o := reporting(".data.text")
		o.ConditionRules = manyRules(1)
		o.ConditionRules[0].CELExpressions = []string{text}
		o.ConditionRules[0].MessageExpression = text + ` ? "a" : "b"`
		return o
	}
	for what, option := range map[string]workv1.ManifestConfigOption{
		"comparisons by jq":   ignoring(slices.Repeat([]string{double + "|select(.a==.b)|.metadata.x"}, 99)...),
		"removals by jq":      ignoring(slices.Repeat([]string{double + "|.a[0:]"}, 99)...),
		"descents":            reporting(slices.Repeat([]string{"..[0]"}, 99)...),
		"filters":             reporting(slices.Repeat([]string{".a[?(@ > 1)]"}, 99)...),
		"a search by letters": expressions(bind("(v + v).indexOf(v + 'b') == -1")),
		"a search from the end": expressions(
			`["a"].all(v, object.data.text.lastIndexOf('b' + object.data.text.substring(50000)) == -1)`),
		"matches that are tried": expressions(`object.data.text.findAll("(?:a*b)|a").size() > 0`),
	} {
		for i := range 4 {
			name := fmt.Sprintf("worst-%s-%d", strings.ReplaceAll(what, " ", "-"), i)
			w := newWork(t, m.name, strings.ToLower(name), object(name))
			w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{option}
			if err := author.Create(ctx, w); err != nil {
				refused(t, what, err)
			}
		}
	}
	for i := range 3 {
		proceeds(t, m, fmt.Sprint("beside-worst-", i))
	}
	harmless(t, "the worst input of each language of works", nil)
}

// largeStatus makes works whose status does not fit into the hub's store.
func largeStatus(t *testing.T, author client.Client, m *member) {
	ctx := context.Background()
	var objects []any
	for i := range 3200 {
		objects = append(objects, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("n", i)}})
	}
	w := newWork(t, m.name, "large", objects...)
	w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"},
		UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
	}}
	// What the works before have reported counts against the same budget.
	testkit.Must(t, hub.admin(t).DeleteAllOf(ctx, &workv1.ManifestWork{}, client.InNamespace(m.name)))
	testkit.Eventually(t, func() error { return author.Create(ctx, w) })
	wide := newWork(t, m.name, "wide")
	for i := range 60 {
		cm := configMap("default", fmt.Sprint("wide-", i))
		cm.Data["k"] = strings.Repeat("x", 8000)
		wide.Spec.Workload.Manifests = append(wide.Spec.Workload.Manifests, newWork(t, "", "", cm).Spec.Workload.Manifests...)
	}
	wide.Spec.ManifestConfigs = []workv1.ManifestConfigOption{reporting(".data.k", ".data['k']", "..k", ".data.*")}
	testkit.Eventually(t, func() error { return author.Create(ctx, wide) })
	for _, w := range []*workv1.ManifestWork{w, wide} {
		testkit.Eventually(t, func() error {
			if err := author.Get(ctx, client.ObjectKeyFromObject(w), w); err != nil {
				return err
			}
			c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionStatusTruncated)
			if c == nil || !strings.Contains(c.Message, "Split the work") || meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied) == nil {
				return fmt.Errorf("the status of %s is not reported: %+v\n%s", w.Name, w.Status.Conditions, m.agent.Log())
			}
			return nil
		})
		testkit.Eventually(t, func() error {
			events := &corev1.EventList{}
			testkit.Must(t, hub.admin(t).List(ctx, events, client.InNamespace(m.name)))
			for _, e := range events.Items {
				if e.InvolvedObject.Name == w.Name && e.Reason == work.ReasonStatusTooLarge {
					return nil
				}
			}
			return fmt.Errorf("no event is about the status of %s", w.Name)
		})
		harmless(t, "a status too large, of the work "+w.Name, nil)
	}
	if log := m.agent.Log(); !strings.Contains(log, "not reported in full") {
		t.Errorf("the agent's log says nothing of it:\n%s", log)
	}
	proceeds(t, m, "beside-large")
}

// printedValues changes immutable fields, where the API server prints
// all in its refusal.
func printedValues(t *testing.T, author client.Client, m *member) {
	ctx := context.Background()
	job := func(image string) map[string]any {
		return map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"namespace": "default", "name": "printed"}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"restartPolicy": "Never", "containers": []any{map[string]any{"name": "a", "image": image, "env": []any{map[string]any{"name": "DB_PASSWORD", "value": "supersecret"}}}},
		}}}}
	}
	w := newWork(t, m.name, "printed", job("a"))
	testkit.Must(t, author.Create(ctx, w))
	judged(t, w)
	patch := client.MergeFrom(w.DeepCopy())
	w.Spec.Workload = newWork(t, "", "", job("b")).Spec.Workload
	testkit.Must(t, author.Patch(ctx, w, patch))
	_, all := judged(t, w)
	var problem error
	if strings.Contains(all, "supersecret") || !strings.Contains(all, "field is immutable") {
		problem = fmt.Errorf("it is reported: %s", all)
	}
	harmless(t, "having a template printed", problem)
	if strings.Contains(m.agent.Log(), "supersecret") {
		t.Errorf("the agent's log has the password:\n%s", m.agent.Log())
	}
}
