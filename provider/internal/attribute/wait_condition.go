package attribute

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
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
		return c, fmt.Errorf("%q names no condition; write a type such as Available, or a type and a status such as Progressing=False", text)
	}
	if !slices.Contains([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}, c.Status) {
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
func (waitConditionValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
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
