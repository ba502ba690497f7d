package manifestwork

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// warnOfFailure warns at a refresh of what the agent could not apply. It says nothing
// of a work that the agent has yet to look at.
func warnOfFailure(object manifestWork, places workload.Places, diags *diag.Diagnostics) {
	var failing, remedies []string
	for _, r := range workload.RefusedObjects(object) {
		failing = append(failing, places.Name(r.Meta)+": "+r.Message)
		remedies = append(remedies, workload.Remedies(r.Message)...)
	}
	if len(failing) == 0 {
		return
	}
	diags.AddWarning("Not applied: "+what(object), attribute.JoinLines(slices.Concat(
		[]string{"The agent of the cluster can't apply all objects of the work:\n  " + firstOf(failing)},
		slices.Compact(remedies),
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
