package ownership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Describe says whose an object is, as far as it tells: "created 3h ago and
// written by kubectl-edit (3m ago)". manager is the field manager of this
// provider.
func Describe(object metav1.Object, manager string, now time.Time) string {
	text := "created"
	if created := object.GetCreationTimestamp(); !created.IsZero() {
		text = fmt.Sprintf("created %s ago (%s)", duration.HumanDuration(now.Sub(created.Time)), created.UTC().Format(time.RFC3339))
	}
	if token := object.GetLabels()[cluster.TokenLabel]; token != "" {
		text += fmt.Sprintf(" with the bootstrap token %q", token)
	}
	if writers := writers(object, manager, now); len(writers) > 0 {
		text += " and written by " + strings.Join(writers, ", ")
	}
	if mark := Mark(object); mark != "" {
		text += fmt.Sprintf("; another Terraform resource manages it, in this or another state (its mark, the annotation %s, is %s)", cluster.TerraformOwnerAnnotation, mark)
	}
	return text
}

// writers are those who own fields of the object, the latest first.
func writers(object metav1.Object, manager string, now time.Time) []string {
	last := map[string]time.Time{}
	var names []string
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource != "" {
			continue
		}
		if !slices.Contains(names, entry.Manager) {
			names = append(names, entry.Manager)
		}
		if entry.Time != nil && entry.Time.After(last[entry.Manager]) {
			last[entry.Manager] = entry.Time.Time
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Or(last[b].Compare(last[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		if name == manager {
			names[i] = "this provider"
		} else {
			names[i] = fmt.Sprintf("%q", name)
		}
		if at := last[name]; !at.IsZero() {
			names[i] += fmt.Sprintf(" (%s ago)", duration.HumanDuration(now.Sub(at)))
		}
	}
	return names
}
