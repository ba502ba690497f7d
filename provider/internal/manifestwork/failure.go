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
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// warnOfFailure tells at a refresh what the agent could not apply. It says nothing
// of a work that the agent has yet to look at.
func (m *manifestWorkModel) warnOfFailure(object *workv1.ManifestWork, diags *diag.Diagnostics) {
	m.warnOfContest(object, diags)
	list := workload.RefusedObjects(object)
	if len(list) == 0 {
		return
	}
	places := m.Places()
	var failing []string
	for _, r := range list {
		failing = append(failing, places.Name(r.Meta)+": "+r.Message)
	}
	lines := []string{"The agent of the cluster can't apply all objects of the work:\n  " + firstOf(failing)}
	for _, r := range list {
		lines = append(lines, workload.Remedies(r.Message)...)
	}
	lines = append(slices.Compact(lines), "", "It keeps trying. Correct the objects and apply, or look at what stands in their way:",
		fmt.Sprintf("  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name))
	diags.AddWarning("Not applied: "+m.What(), attribute.JoinLines(lines))
}

// warnOfContest tells at a refresh which objects others keep changing back.
func (m *manifestWorkModel) warnOfContest(object *workv1.ManifestWork, diags *diag.Diagnostics) {
	places := m.Places()
	var lines []string
	for _, reported := range object.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(reported.Conditions, work.ConditionContested); c != nil && c.Status == metav1.ConditionTrue {
			lines = append(lines, places.Name(reported.ResourceMeta)+": "+c.Message)
		}
	}
	if len(lines) == 0 {
		return
	}
	diags.AddWarning("Contested: objects of "+m.What(), "The agent of the cluster reports:\n  "+firstOf(lines)+
		fmt.Sprintf("\n\nThe objects do not stay as the work has them. Look at who else writes them:\n  kubectl get manifestworks -n %s    # on the hub\n"+
			"  kubectl get KIND NAME -o yaml --show-managed-fields    # in the cluster", object.Namespace))
}

// shownFailures is how many failing objects a warning lists.
const shownFailures = 10

func firstOf(failures []string) string {
	return strings.Join(text.First(failures, shownFailures), "\n  ")
}
