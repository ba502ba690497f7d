package manifestwork

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestAWorkIsReadyWhenAllConditionsAreMet(t *testing.T) {
	object := &workv1.ManifestWork{}
	object.Generation = 3
	object.Status.Conditions = []metav1.Condition{
		{Type: "Applied", Status: metav1.ConditionTrue, ObservedGeneration: 3},
		{Type: "Available", Status: metav1.ConditionTrue, ObservedGeneration: 2},
		{Type: "Progressing", Status: metav1.ConditionFalse, ObservedGeneration: 3},
		{Type: "Custom", Status: metav1.ConditionUnknown},
	}
	for wanted, want := range map[string]bool{
		"Applied":                          true,
		"Applied Progressing=False":        true,
		"Applied Custom=Unknown":           true,
		"Applied=False":                    false,
		"Available":                        false,
		"Applied Progressing":              false,
		"Complete=False":                   false,
		"Applied Available Custom=Unknown": false,
	} {
		if got := len((&waitModel{Conditions: textValues(strings.Fields(wanted))}).missing(object)) == 0; got != want {
			t.Errorf("%s: got %v", wanted, got)
		}
	}
}

// described is what a wait for conditions of a work says when it was not met, without
// the cluster.
func described(t *testing.T, object *workv1.ManifestWork, now time.Time, conditions ...string) string {
	t.Helper()
	m := &waitModel{Conditions: textValues(conditions)}
	wait := m.wait(nil, object, 10*time.Minute, nil)
	wait.Details = func(context.Context) []string { return m.describeObjects(object, now, nil) }
	return wait.Describe(t.Context(), nil, now)
}

func TestTimeoutShowsWhatTheWorkLacks(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	since := metav1.NewTime(now.Add(-7 * time.Minute))
	ready, phase := int64(1), "Pending"
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name, object.Generation = "paris", "web", 2
	object.Status.Conditions = []metav1.Condition{
		{Type: "Applied", Status: metav1.ConditionTrue, Reason: "Fine", Message: "all there", LastTransitionTime: since, ObservedGeneration: 2},
		{Type: "Available", Status: metav1.ConditionFalse, Reason: "ResourcesNotAvailable", Message: "1 is not", LastTransitionTime: since, ObservedGeneration: 2},
		{Type: "Progressing", Status: metav1.ConditionFalse, Reason: "Settled", Message: "still", LastTransitionTime: since, ObservedGeneration: 1},
	}
	condition := func(name string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: reason, Message: "says the server", LastTransitionTime: since}
	}
	object.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: "Namespace", Name: "shop"},
			Conditions:   []metav1.Condition{condition("Applied", metav1.ConditionTrue, "Fine"), condition("StatusFeedbackSynced", metav1.ConditionFalse, work.ReasonNoFeedback)},
		},
		{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Namespace: "shop", Name: "web"},
			Conditions: []metav1.Condition{
				condition("Available", metav1.ConditionFalse, "ResourceNotAvailable"), condition("Degraded", metav1.ConditionTrue, "Broken"),
				condition("Progressing", metav1.ConditionTrue, "Moving"), condition("Other", metav1.ConditionFalse, "Whatever"),
				condition("StatusFeedbackSynced", metav1.ConditionFalse, work.ReasonFeedbackFailed),
			},
			StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
				{Name: "ready", Value: workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &ready}},
				{Name: "phase", Value: workv1.FieldValue{Type: workv1.ValueTypeString, String: &phase}},
			}},
		},
	}
	got := described(t, object, now, "Progressing=False", "Complete", "Available", "Applied")
	want := `Within 10m generation 2 did not reach what is waited for:
  Available: it is False
  Complete: nobody has reported it; a condition other than Applied and Available may take a rule in manifest_configs
  Progressing=False: it is reported for generation 1 only, so the agent has not seen the last change
All conditions:
  Applied is True (Fine, for 7m): all there
  Available is False (ResourcesNotAvailable, for 7m): 1 is not
  Progressing is False (Settled, for 7m): still
Objects at fault:
  Deployment shop/web: Available is False (ResourceNotAvailable, for 7m): says the server
  Deployment shop/web: Degraded is True (Broken, for 7m): says the server
  Deployment shop/web: Progressing is True (Moving, for 7m): says the server
  Deployment shop/web: StatusFeedbackSynced is False (StatusFeedbackSyncFailed, for 7m): says the server
Reported values:
  Deployment shop/web: ready = 1
  Deployment shop/web: phase = Pending

Next:
  kubectl describe manifestwork -n paris web`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTimeoutOfAWorkThatNoAgentHasSeen(t *testing.T) {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name = "paris", "web"
	got := described(t, object, time.Now(), "Applied")
	want := `Within 10m generation 0 did not reach what is waited for:
  Applied: the agent has not reported it
All conditions:
  (no conditions: no controller or agent has reported anything yet)

Next:
  kubectl describe manifestwork -n paris web`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func textValues(texts []string) []types.String {
	var values []types.String
	for _, text := range texts {
		values = append(values, types.StringValue(text))
	}
	return values
}
