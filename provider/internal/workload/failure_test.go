package workload

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// failingWork is a work of generation 2 whose agent reports messages for objects
// that it can't apply.
func failingWork(observed int64, messages ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{}
	w.APIVersion, w.Kind = "work.open-cluster-management.io/v1", "ManifestWork"
	w.Namespace, w.Name, w.Generation, w.ResourceVersion = "paris", "web", 2, "7"
	applied := metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue, ObservedGeneration: observed}
	for _, m := range messages {
		applied.Status = metav1.ConditionFalse
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
			Conditions:   []metav1.Condition{{Type: "Applied", Status: metav1.ConditionFalse, Message: m}},
		})
	}
	w.Status.Conditions = []metav1.Condition{applied}
	return w
}

func TestFailures(t *testing.T) {
	for name, x := range map[string]struct {
		work *workv1.ManifestWork
		want string
		is   severity
	}{
		"applied":                       {failingWork(2), "", passing},
		"what the server can't read":    {failingWork(2, "spec.replicas: expected int"), "Deployment shop/web: spec.replicas: expected int", lasting},
		"of an earlier generation":      {failingWork(1, "spec.replicas: expected int"), "", passing},
		"without a generation":          {failingWork(0, "no"), "Deployment shop/web: no", lasting},
		"one that may pass beside":      {failingWork(2, "no", `namespaces "shop" not found`), "Deployment shop/web: no\nDeployment shop/web: namespaces \"shop\" not found", passing},
		"one that may pass before":      {failingWork(2, `namespaces "shop" not found`, "no"), "Deployment shop/web: namespaces \"shop\" not found\nDeployment shop/web: no", passing},
		"one that does not pass beside": {failingWork(2, `namespaces "shop" not found`, `x is invalid: y`), "Deployment shop/web: namespaces \"shop\" not found\nDeployment shop/web: x is invalid: y", definite},
		"nothing reported":              {&workv1.ManifestWork{}, "", passing},
	} {
		if got, is := judgeWork(x.work); got != x.want || is != x.is {
			t.Errorf("%s: got %q, %d, want %q, %d", name, got, is, x.want, x.is)
		}
	}
}

func TestSeverities(t *testing.T) {
	for message, want := range map[string]severity{
		`no matches for kind "ConfigMapp" in version "v1"`:                                                                                     definite,
		`no matches for kind "Deploy" in version "apps/v1"`:                                                                                    definite,
		`no matches for kind "Shop" in version "example.com/v1"`:                                                                               lasting,
		`Deployment.apps "web" is invalid: spec.selector: Invalid value: field is immutable`:                                                   definite,
		`Job.batch "x" is invalid: spec.template: field is immutable`:                                                                          definite,
		`configmaps "x" is forbidden: User "a" cannot create resource "configmaps" in API group "" in the namespace "shop"`:                    definite,
		`pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged`:                                                          definite,
		`pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`:                                           lasting,
		`configmaps "x" is forbidden: unable to create new content in namespace shop because it is being terminated`:                           passing,
		`pods "x" is forbidden: error looking up service account shop/default: serviceaccount "default" not found`:                             passing,
		`Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field .spec of type int32`: definite,
		`failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.replica: field not declared in schema`:                definite,
		`namespaces "shop" not found`: passing,
		`Internal error occurred: failed calling webhook "x": connection refused`:                           passing,
		`admission webhook "x" denied the request: spec is invalid: no`:                                     lasting,
		`Apply failed with 1 conflict: conflict with "kubectl" using v1: .data.a`:                           lasting,
		`Post "https://10.0.0.1": net/http: TLS handshake timeout`:                                          passing,
		`Operation cannot be fulfilled on x: the object has been modified; please apply your changes again`: passing,
	} {
		if got := severityOf("Failed to apply manifest: " + message); got != want {
			t.Errorf("%s: got %d, want %d", message, got, want)
		}
	}
}

// A change of a work that is Complete is not waited for.
func TestACompleteWorkIsNotAppliedAgain(t *testing.T) {
	complete := func(observed int64, rules ...workv1.ConditionRule) *workv1.ManifestWork {
		w := failingWork(1)
		w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: "Complete", Status: metav1.ConditionTrue, ObservedGeneration: observed})
		w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{ConditionRules: rules}}
		return w
	}
	rule := workv1.ConditionRule{Condition: "Complete"}
	for name, x := range map[string]struct {
		work *workv1.ManifestWork
		want severity
	}{
		"before the change":     {complete(1, rule), definite},
		"after it":              {complete(2, rule), passing},
		"and the rule was lost": {complete(1), passing},
	} {
		if text, is := judgeWork(x.work); is != x.want || (is == definite) != strings.Contains(text, "The work is Complete") {
			t.Errorf("%s: got %q, %d", name, text, is)
		}
	}
}

// What is wrong in a fleet is told cause by cause, and of a large fleet a bounded part.
func TestCauses(t *testing.T) {
	c := Causes{}
	for i := range 37 {
		c.Add(fmt.Sprintf("c%02d", 36-i), "no namespace")
	}
	c.Add("rome", "quota")
	c.Add("oslo", "quota")
	c.Add("oslo", "quota")
	c.Add("paris", "its own")
	want := `  in 37 clusters (c00, c01, c02 and 34 more): no namespace
  in 2 clusters (oslo, rome): quota
  in paris: its own`
	if got := strings.Join(c.Lines(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for i := range 20 {
		c.Add("bern", fmt.Sprint("cause ", i))
	}
	lines := c.Lines()
	if len(lines) != shownCauses+1 || lines[shownCauses] != "  and 13 more, in 2 clusters" {
		t.Errorf("got %q", lines)
	}
}
