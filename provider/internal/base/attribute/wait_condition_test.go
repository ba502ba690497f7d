package attribute

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWaitConditionsAreRead(t *testing.T) {
	for text, want := range map[string]WaitCondition{
		"Applied":           {"Applied", metav1.ConditionTrue},
		"Applied=True":      {"Applied", metav1.ConditionTrue},
		"Progressing=False": {"Progressing", metav1.ConditionFalse},
		"Custom=Unknown":    {"Custom", metav1.ConditionUnknown},
	} {
		if got, err := parseWaitCondition(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                "names no condition",
		"=True":           "names no condition",
		"Is Applied":      "names no condition",
		"Applied=":        `"" is not a status in "Applied="; a condition is True, False or Unknown`,
		"Applied=false":   `"false" is not a status`,
		"Applied=True=No": `"True=No" is not a status`,
	} {
		if _, err := parseWaitCondition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestUnmetConditions(t *testing.T) {
	have := []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: 3},
		{Type: "Old", Status: metav1.ConditionTrue, ObservedGeneration: 2},
		{Type: "Plain", Status: metav1.ConditionFalse},
	}
	for text, want := range map[string]string{
		"Ready":       "",
		"Ready=False": "it is True",
		"Old":         "it is reported for generation 2 only, so the hub has not seen the last change",
		"Plain=False": "",
		"Plain":       "it is False",
		"Other":       "nobody has reported it",
	} {
		c, err := parseWaitCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Unmet(have, 3, "the hub"); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
