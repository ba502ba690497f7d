package manifestwork

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What the agent reports of a work, as attributes.

// reported is what the agent reports of one object.
type reported = workv1.ManifestCondition

// dataTable has the attributes of the data source that the resource has not, or not with
// all that is in them.
func dataTable() attribute.Table[manifestWork] {
	return attribute.Table[manifestWork]{
		workload.TextsOf[manifestWork]("The work's objects", "muster_manifest_work"),
		attribute.ReportedConditions("Conditions of the work.",
			func(object manifestWork) []metav1.Condition { return object.Status.Conditions }),
		feedbackField("Reported values of the live objects. Objects without reported values are not listed.",
			"The values as text, by the names that the feedback rules give them."),
		attribute.ReportedObjects("resources", "What the agent reports of each object, in the order of the manifests.",
			func(object manifestWork) []reported { return object.Status.ResourceStatus.Manifests },
			append(objectFields(),
				attribute.ReportedText("resource",
					"Plural name of its kind; empty while the cluster does not know the kind.",
					func(r reported) string { return r.ResourceMeta.Resource }),
				attribute.ReportedConditions("Conditions of the object: `Applied`, `Available`, "+
					"`StatusFeedbackSynced`, and those of rules.",
					func(r reported) []metav1.Condition { return r.Conditions }))...),
	}
}

// readData reads the data source's own attributes.
func readData(_ context.Context, _ *kube.Client, object manifestWork) (attribute.Values, error) {
	values := dataTable().Read(masked(object, workload.None()))
	texts, err := content().Live(object).Texts()
	values["manifests"] = texts
	return values, err
}

// objectFields name an object that the agent reports on.
func objectFields() []attribute.Field[reported] {
	return []attribute.Field[reported]{
		attribute.ReportedText("group", "API group of the object; empty for the core group.",
			func(r reported) string { return r.ResourceMeta.Group }),
		attribute.ReportedText("version", "Version of its API.",
			func(r reported) string { return r.ResourceMeta.Version }),
		attribute.ReportedText("kind", "Its kind.", func(r reported) string { return r.ResourceMeta.Kind }),
		attribute.ReportedText("namespace", "Its namespace; empty if its kind has none.",
			func(r reported) string { return r.ResourceMeta.Namespace }),
		attribute.ReportedText("name", "Its name.", func(r reported) string { return r.ResourceMeta.Name }),
	}
}

func feedbackField(description, values string) attribute.Field[manifestWork] {
	return attribute.ReportedObjects("feedback", description, func(object manifestWork) []reported {
		return slices.DeleteFunc(slices.Clone(object.Status.ResourceStatus.Manifests), func(r reported) bool {
			return len(r.StatusFeedbacks.Values) == 0
		})
	}, append(objectFields(), attribute.ReportedTextMap("values", values, func(r reported) map[string]string {
		texts := map[string]string{}
		for _, value := range r.StatusFeedbacks.Values {
			texts[value.Name] = feedbackText(value.Value)
		}
		return texts
	}))...)
}

// masked is a work as a state may show it, with no secrets in what is reported.
func masked(object manifestWork, c workload.Content) manifestWork {
	shown, hide := *object, content().Live(object).Masker(c)
	shown.Status.Conditions = hide.Conditions(object.Status.Conditions)
	shown.Status.ResourceStatus.Manifests = slices.Clone(object.Status.ResourceStatus.Manifests)
	for i := range shown.Status.ResourceStatus.Manifests {
		r := &shown.Status.ResourceStatus.Manifests[i]
		r.Conditions = hide.Conditions(r.Conditions)
		r.StatusFeedbacks.Values = slices.Clone(r.StatusFeedbacks.Values)
		for j := range r.StatusFeedbacks.Values {
			text := hide.Text(feedbackText(r.StatusFeedbacks.Values[j].Value))
			if secretive(object, r.ResourceMeta) {
				text = workload.Hidden
			}
			r.StatusFeedbacks.Values[j].Value = workv1.FieldValue{String: &text}
		}
	}
	return &shown
}

// secretive reports whether what is reported of one of the work's objects may be a
// secret: of every Secret, and of what was given write-only.
func secretive(object manifestWork, about workv1.ManifestResourceMeta) bool {
	return about.Group == "" && (about.Kind == "Secret" || about.Resource == "secrets") ||
		workload.IsWriteOnly(object.Annotations, about)
}

// feedbackText is a reported value of any type as text. One without a value is
// empty.
func feedbackText(value workv1.FieldValue) string {
	switch {
	case value.Integer != nil:
		return strconv.FormatInt(*value.Integer, 10)
	case value.String != nil:
		return *value.String
	case value.Boolean != nil:
		return strconv.FormatBool(*value.Boolean)
	case value.JSONRaw != nil:
		return *value.JSONRaw
	}
	return ""
}

// warnOfFailure warns at a refresh of what the agent could not apply. It says nothing
// of a work that the agent has yet to look at.
func warnOfFailure(object manifestWork, places workload.Places, diags *diag.Diagnostics) {
	var failing []string
	for _, r := range workload.RefusedObjects(object) {
		failing = append(failing, places.Name(r.Meta)+": "+r.Message)
	}
	if len(failing) == 0 {
		return
	}
	diags.AddWarning("Not applied: "+what(object), attribute.JoinLines(slices.Concat(
		[]string{"The agent of the cluster can't apply all objects of the work:\n  " + firstOf(failing)},
		workload.Remedies(object),
		[]string{
			"", "It keeps trying. Correct the objects and apply, or look at what stands in their way:",
			fmt.Sprintf("  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name),
		})))
}

// warnOfContest warns at a refresh of objects that others keep changing back.
func warnOfContest(object manifestWork, places workload.Places, diags *diag.Diagnostics) {
	var lines []string
	for _, r := range object.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(r.Conditions, work.ConditionContested)
		if c != nil && c.Status == metav1.ConditionTrue {
			lines = append(lines, places.Name(r.ResourceMeta)+": "+c.Message)
		}
	}
	if len(lines) > 0 {
		diags.AddWarning("Contested: objects of "+what(object), fmt.Sprintf("The agent of the cluster reports:\n"+
			"  %s\n\n"+
			"The objects do not stay as the work has them. Look at who else writes them:\n"+
			"  kubectl get manifestworks -n %s    # on the hub\n"+
			"  kubectl get KIND NAME -o yaml --show-managed-fields    # in the cluster",
			firstOf(lines), object.Namespace))
	}
}

// shownFailures is how many failing objects a warning lists.
const shownFailures = 10

func firstOf(failures []string) string {
	return strings.Join(text.First(failures, shownFailures), "\n  ")
}
