package works_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// reported is a work of hooks with what the agent reports: for each object its kind,
// and feedback as name=value.
func reported(available metav1.ConditionStatus, all ...[]string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{}
	for _, r := range all {
		kind, group := r[0], map[string]string{"Job": "batch"}[r[0]]
		apiVersion := map[string]string{"Job": "batch/v1", "Pod": "v1"}[kind]
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, raw(`{"apiVersion":"`+apiVersion+`","kind":"`+kind+`","metadata":{"namespace":"n","name":"x"}}`))
		if len(r) == 1 {
			continue
		}
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Group: group, Kind: kind, Namespace: "n", Name: "x"}}
		for i := 1; i+1 < len(r); i += 2 {
			m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, workv1.FeedbackValue{Name: r[i], Value: workv1.FieldValue{Type: "String", String: &r[i+1]}})
		}
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, m)
	}
	if available != "" {
		w.Status.Conditions = []metav1.Condition{{Type: "Available", Status: available}}
	}
	return w
}

func TestCompleted(t *testing.T) {
	job := func(values ...string) []string { return append([]string{"Job"}, values...) }
	pod := func(values ...string) []string { return append([]string{"Pod"}, values...) }
	for name, x := range map[string]struct {
		work    *workv1.ManifestWork
		done    bool
		failure string
	}{
		"not reported":              {reported("", job("JobComplete", "True")), false, ""},
		"not available":             {reported("False", job("JobComplete", "True")), false, ""},
		"a Job":                     {reported("True", job("JobComplete", "True")), true, ""},
		"a Job without feedback":    {reported("True", job()), false, ""},
		"a Job that runs":           {reported("True", job("JobSucceeded", "0")), false, ""},
		"a Job that failed":         {reported("True", job("JobFailed", "True", "JobFailureMessage", "no more tries")), false, "Job n/x has failed: no more tries"},
		"a Job that failed, silent": {reported("True", job("JobFailed", "True")), false, "Job n/x has failed"},
		"a Pod":                     {reported("True", pod("PodPhase", "Succeeded")), true, ""},
		"a Pod that runs":           {reported("True", pod("PodPhase", "Running")), false, ""},
		"a Pod that failed":         {reported("True", pod("PodPhase", "Failed")), false, "Pod n/x has failed"},
		"both":                      {reported("True", job("JobComplete", "True"), pod("PodPhase", "Succeeded")), true, ""},
		"one of both":               {reported("True", job("JobComplete", "True"), pod("PodPhase", "Pending")), false, ""},
		"the other of both":         {reported("True", job("JobComplete", "False"), pod("PodPhase", "Succeeded")), false, ""},
	} {
		if done, failure := works.Completed(x.work); done != x.done || failure != x.failure {
			t.Errorf("%s: %v, %q, want %v, %q", name, done, failure, x.done, x.failure)
		}
	}
}

// The agent is asked for what tells a hook that has failed, whatever the template asks.
func TestWhatIsReportedOfHooks(t *testing.T) {
	in := input()
	in.Hooks = objects(object("Job", "j", 0), object("Pod", "p", 0))
	in.ManifestConfigs = []workv1.ManifestConfigOption{
		{ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Name: "*"}},
		{ResourceIdentifier: workv1.ResourceIdentifier{Group: "batch", Resource: "jobs", Namespace: "n", Name: "j"}, UpdateStrategy: &workv1.UpdateStrategy{Type: "CreateOnly"},
			FeedbackRules: []workv1.FeedbackRule{{Type: "WellKnownStatus"}, {Type: "JSONPaths", JSONPaths: []workv1.JSONPath{{Name: "own", Path: ".x"}}}}},
	}
	c, ok, err := works.Hook(in, nil)
	testkit.Must(t, err)
	got, err := json.Marshal(c.Want.Spec.ManifestConfigs)
	testkit.Must(t, err)
	const want = `[{"resourceIdentifier":{"group":"batch","resource":"jobs","name":"j","namespace":"n"},"feedbackRules":[{"type":"WellKnownStatus"},{"type":"JSONPaths","jsonPaths":[{"name":"JobFailed","path":".status.conditions[?(@.type==\"Failed\")].status"},{"name":"JobFailureMessage","path":".status.conditions[?(@.type==\"Failed\")].message"}]},{"type":"JSONPaths","jsonPaths":[{"name":"own","path":".x"}]}],"feedbackScrapeType":"Poll","updateStrategy":{"type":"CreateOnly"}},` +
		`{"resourceIdentifier":{"resource":"pods","name":"p","namespace":"n"},"feedbackRules":[{"type":"WellKnownStatus"}],"feedbackScrapeType":"Poll"},` +
		`{"resourceIdentifier":{"group":"apps","resource":"deployments","name":"*"},"feedbackScrapeType":"Poll"}]`
	if string(got) != want || !ok {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, again, err := works.Hook(in, []*workv1.ManifestWork{c.Want}); again || err != nil {
		t.Errorf("once more: %v, %v", again, err)
	}
}

// Works keep the hooks that belong to them.
func TestKeptHooks(t *testing.T) {
	in := input(cm("a", 700), cm("b", 700))
	in.Hooks = objects(object("Job", "j", 0, "addon-pre-delete="))
	s := server{}
	deploy(t, s, in)
	if got := works.KeptHooks(in.Place, s.list()); len(got) != 1 || got[0].GetName() != "j" || !works.IsHook(got[0]) {
		t.Errorf("got %v", got)
	}
	kept := 0
	for _, w := range s {
		if w.Annotations["muster-fleet.io/pre-delete-manifests"] != "" {
			kept++
		}
	}
	if kept != 1 {
		t.Errorf("%d works keep them", kept)
	}
	in.Host = "london"
	if got := works.KeptHooks(in.Place, s.list()); got != nil {
		t.Errorf("works elsewhere keep %v", got)
	}
	in.Host = ""
	in.Hooks = nil
	deploy(t, s, in)
	if got := works.KeptHooks(in.Place, s.list()); got != nil {
		t.Errorf("there still is %v", got)
	}
	s["addon-search-deploy-0"].Annotations["muster-fleet.io/pre-delete-manifests"] = "{"
	if got := works.KeptHooks(in.Place, s.list()); got != nil {
		t.Errorf("what can't be read is %v", got)
	}
}

func TestApplied(t *testing.T) {
	s := server{}
	in := input(cm("a", 700), cm("b", 700))
	deploy(t, s, in)
	report := func(name string, status metav1.ConditionStatus, message string) {
		w := s["addon-search-deploy-"+name]
		w.Status.Conditions = []metav1.Condition{{Type: "Applied", Status: status, Message: "Failed to apply manifest work"}}
		w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{}, {Conditions: []metav1.Condition{{Type: "Applied", Status: status, Message: message}}}}
	}
	mustBe := func(known bool, want string) {
		t.Helper()
		c, got := works.Applied(in.Place, s.list())
		text := string(c.Status) + "/" + c.Reason + "/" + c.Message
		if got != known || known && text != want {
			t.Errorf("got %q (%v), want %q (%v)", text, got, want, known)
		}
	}
	const good, bad = "True/AddonManifestApplied/manifests of addon are applied successfully", "False/AddonManifestAppliedFailed/failed to apply the manifests of addon: the work addon-search-deploy-0: no"
	mustBe(false, "")
	report("1", "True", "")
	mustBe(false, "")
	report("0", "True", "")
	mustBe(true, good)
	report("0", "False", "no")
	mustBe(true, bad)
	s["addon-search-deploy-1"].Status.Conditions = nil
	mustBe(true, bad)
	clear(s)
	mustBe(true, "True/AddonManifestApplied/no manifest need to apply")
	in.Host = "london"
	if c, _ := works.Applied(in.Place, nil); c.Type != "HostingManifestApplied" {
		t.Error(c.Type)
	}
}
