package preview_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/preview"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func object(
	kind, name string,
	outcome v1alpha1.PreviewOutcome,
	message string,
	changes ...v1alpha1.FieldChange,
) v1alpha1.ObjectPreview {
	return v1alpha1.ObjectPreview{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: kind, Namespace: "shop", Name: name},
		Outcome:      outcome, Message: message, Changes: changes,
	}
}

// Clusters in which the same would happen are named together.
func TestReport(t *testing.T) {
	replicas := v1alpha1.FieldChange{Path: "spec.replicas", From: "2", To: "3"}
	changed := []v1alpha1.ObjectPreview{
		object("Deployment", "web", v1alpha1.PreviewChange, "", replicas),
		object("ConfigMap", "same", v1alpha1.PreviewUnchanged, ""),
	}
	answers := []preview.Answer{}
	for i := range 7 {
		answers = append(answers, preview.Answer{Cluster: fmt.Sprint("c", i), Objects: changed})
	}
	refused := object("Deployment", "web", v1alpha1.PreviewRefused, "denied by a policy")
	answers = append(answers,
		preview.Answer{Cluster: "paris", Objects: []v1alpha1.ObjectPreview{refused}},
		preview.Answer{Cluster: "rome", Objects: []v1alpha1.ObjectPreview{refused}},
		preview.Answer{Cluster: "oslo", Missing: "did not answer in 10s"},
		preview.Answer{Cluster: "bonn", Missing: "did not answer in 10s"},
		preview.Answer{Cluster: "same", Objects: changed[1:]},
		preview.Answer{Cluster: "large", Objects: []v1alpha1.ObjectPreview{
			object("Secret", "s", v1alpha1.PreviewDelete, ""),
			object("ConfigMap", "many", v1alpha1.PreviewChange, "", replicas,
				v1alpha1.FieldChange{Path: "data.a", To: `"x"`}, v1alpha1.FieldChange{Path: "data.b", From: `"y"`}),
		}, MoreObjects: 3},
	)
	r := preview.Summarize(answers)
	want := strings.TrimSpace(`
Deployment shop/web
  ~ change in 7 clusters (c0, c1, c2, c3, c4 and 2 more): spec.replicas: 2 → 3
  ! refused in paris, rome: denied by a policy
Secret shop/s
  - delete in large
ConfigMap shop/many
  ~ change in large:
      spec.replicas: 2 → 3
      data.a: + "x"
      data.b: - "y"
further objects
  ? not known in large: there are 3 more objects than an answer has room for
oslo, bonn: did not answer in 10s
13 clusters asked, 8 with changes, 1 without changes, 3 with refusals, 2 without an answer.`)
	if got := strings.Join(append(r.Lines(nil), r.Summary()), "\n"); got != want {
		t.Errorf("the report is\n%s\nwant\n%s", got, want)
	}
	problems := strings.Join(r.Only(true).Lines(nil), "\n")
	if strings.Contains(problems, "change") || !strings.Contains(problems, "policy") ||
		!strings.Contains(problems, "oslo") {
		t.Errorf("the problems are\n%s", problems)
	}
	if rest := strings.Join(r.Only(false).Lines(nil), "\n"); strings.Contains(rest, "policy") ||
		strings.Contains(rest, "oslo") {
		t.Errorf("the rest is\n%s", rest)
	}
}

func TestReportOfNothing(t *testing.T) {
	r := preview.Summarize([]preview.Answer{{Cluster: "c"}})
	if r.HasChanges() || len(r.Lines(nil)) > 0 || r.Summary() != "1 cluster asked, 1 without changes." {
		t.Errorf("the report is %v, %q", r.Lines(nil), r.Summary())
	}
}
