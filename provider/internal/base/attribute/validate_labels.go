package attribute

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// ValidLabels admits maps that can be labels. reserved, which may be nil, tells
// why a key can't be set here, or "".
func ValidLabels(reserved func(key string) string) validator.Map {
	return labelsValidator{Described: "Kubernetes labels", reserved: reserved}
}

// ValidAnnotations admits maps that can be annotations, without the provider's
// own.
func ValidAnnotations() validator.Map {
	return labelsValidator{Described: "Kubernetes annotations", reserved: ReservedAnnotation, annotations: true}
}

type labelsValidator struct {
	Described
	reserved func(key string) string
	// annotations have any text as values, and keys in any case.
	annotations bool
}

// ValidateMap implements validator.Map.
func (v labelsValidator) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	for key, element := range req.ConfigValue.Elements() {
		at := req.Path.AtMapKey(key)
		if problems := v.checkKey(key); len(problems) > 0 {
			resp.Diagnostics.AddAttributeError(at, "Invalid key",
				fmt.Sprintf("%q is not a valid key: %s.", key, strings.Join(problems, "; ")))
			continue
		}
		if v.reserved != nil {
			if why := v.reserved(key); why != "" {
				resp.Diagnostics.AddAttributeError(at, "Reserved key",
					fmt.Sprintf("%q can't be set here: %s.", key, why))
				continue
			}
		}
		value, ok := element.(types.String)
		if !ok || value.IsNull() || value.IsUnknown() || v.annotations {
			continue
		}
		if problems := validation.IsValidLabelValue(value.ValueString()); len(problems) > 0 {
			resp.Diagnostics.AddAttributeError(at, "Invalid label value",
				fmt.Sprintf("%q is not a valid value of the label %s: %s.", value.ValueString(), key,
					strings.Join(problems,
						"; ")))
		}
	}
}

// checkKey follows Kubernetes, which is strict about the prefix of a label and
// takes that of an annotation in any case.
func (v labelsValidator) checkKey(key string) []string {
	if v.annotations {
		key = strings.ToLower(key)
	}
	return validation.IsQualifiedName(key)
}

// ValidClientID checks the client ID of a cluster.
func ValidClientID() validator.String { return validBy("client ID", cluster.CheckClientID) }

// ValidAllowedLabel checks the key of a label, or with a * at the end the beginning
// of keys, that a bootstrap token lets agents choose.
func ValidAllowedLabel() validator.String {
	return validBy("label key", func(key string) error { return cluster.CheckAllowedLabels([]string{key}) })
}

func validBy(what string, check func(string) error) validator.String {
	return ValidText("a "+what, func(at path.Path, text string) (summary, detail string) {
		if err := check(text); err != nil {
			return "Invalid " + what, fmt.Sprintf("%s: %v.", Place(at), err)
		}
		return "", ""
	})
}
