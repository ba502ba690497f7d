package attribute

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitCondition is a condition to wait for.
type WaitCondition struct {
	Type   string
	Status metav1.ConditionStatus
}

// String is the condition as the configuration may have it.
func (c WaitCondition) String() string {
	if c.Status == metav1.ConditionTrue {
		return c.Type
	}
	return c.Type + "=" + string(c.Status)
}

// parseWaitCondition reads Type or Type=Status.
func parseWaitCondition(text string) (WaitCondition, error) {
	name, status, found := strings.Cut(text, "=")
	c := WaitCondition{Type: name, Status: metav1.ConditionStatus(status)}
	if !found {
		c.Status = metav1.ConditionTrue
	}
	if c.Type == "" || strings.ContainsAny(c.Type, " \t\n") {
		return c, fmt.Errorf("%q names no condition; write a type such as Available, or a type and a status such as "+
			"Progressing=False", text)
	}
	if !slices.Contains([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown},
		c.Status) {
		return c, fmt.Errorf("%q is not a status in %q; a condition is True, False or Unknown", status, text)
	}
	return c, nil
}

// waitConditionValidator admits what parseWaitCondition reads.
type waitConditionValidator struct{ Described }

// ValidWaitCondition admits a condition to wait for.
func ValidWaitCondition() validator.String {
	return waitConditionValidator{"a type of a condition, or a type and a status such as Progressing=False"}
}

// ValidateString implements validator.String. An element that is null names no
// condition.
func (waitConditionValidator) ValidateString(
	_ context.Context, req validator.StringRequest, resp *validator.StringResponse,
) {
	if req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := parseWaitCondition(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid condition", Capitalize(err.Error())+".")
	}
}

// WaitConditions are the conditions that an attribute lists, in the order of
// their names.
func WaitConditions(list []types.String) []WaitCondition {
	var conditions []WaitCondition
	for _, text := range Sorted(Texts(list)) {
		if c, err := parseWaitCondition(text); err == nil { // The validator has seen to it.
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// WaitConditionsAnd are WaitConditions with the one that a flag stands for: that a
// condition of this type is true.
func WaitConditionsAnd(list []types.String, flag types.Bool, conditionType string) []WaitCondition {
	conditions := WaitConditions(list)
	flagged := WaitCondition{Type: conditionType, Status: metav1.ConditionTrue}
	if flag.ValueBool() && !slices.Contains(conditions, flagged) {
		conditions = append(conditions, flagged)
	}
	return conditions
}

// Unmet says why an object of this generation does not have the condition; it is empty
// when the object has it. by is who reports, such as "the scheduler". A condition that
// notes no generation counts as up to date.
func (c WaitCondition) Unmet(have []metav1.Condition, generation int64, by string) string {
	switch found := meta.FindStatusCondition(have, c.Type); {
	case found == nil:
		return "nobody has reported it"
	case found.ObservedGeneration != 0 && found.ObservedGeneration < generation:
		return fmt.Sprintf("it is reported for generation %d only, so %s has not seen the last change",
			found.ObservedGeneration, by)
	case found.Status != c.Status:
		return "it is " + string(found.Status)
	}
	return ""
}

// UnmetConditions lists those of the conditions that an object does not have, each with
// the reason, as WaitCondition.Unmet says it.
func UnmetConditions(wanted []WaitCondition, have []metav1.Condition, generation int64, by string) []string {
	var unmet []string
	for _, c := range wanted {
		if why := c.Unmet(have, generation, by); why != "" {
			unmet = append(unmet, c.String()+": "+why)
		}
	}
	return unmet
}
