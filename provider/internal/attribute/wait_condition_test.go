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
