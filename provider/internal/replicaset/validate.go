package replicaset

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
)

// What can be told about a replica set before the hub is asked.

// validName admits names that can be told apart from their namespace again.
func validName() validator.String {
	const form = "lower-case letters, digits and hyphens, with a letter or digit at both ends, and no dots"
	return attribute.ValidText(form,
		func(_ path.Path, name string) (summary, detail string) {
			if !strings.Contains(name, ".") {
				return attribute.CheckLabel("replica set name", name)
			}
			return "Invalid replica set name", fmt.Sprintf("name = %q has dots. The works carry <namespace>.<name> as "+
				"a label by which the hub finds the replica set again, and it reads that up to the dot. Try %q.",
				name, attribute.SuggestName(name))
		})
}

// checkReplicaSetLabel reports a namespace and a name that are too long
// together. Nothing is said while one of them is unknown or wrong by itself.
func checkReplicaSetLabel(namespace, name types.String, diags *diag.Diagnostics) {
	if namespace.IsNull() || namespace.IsUnknown() || name.IsNull() || name.IsUnknown() {
		return
	}
	label := replicaSetLabel(namespace.ValueString(), name.ValueString())
	if len(label) <= validation.LabelValueMaxLength {
		return
	}
	diags.AddAttributeError(path.Root("name"), "Namespace and name are too long",
		fmt.Sprintf("%q, the namespace and the name, has %d characters. The works carry both as one label, whose "+
			"value can have %d at most. Shorten one of them by %d.",
			label, len(label), validation.LabelValueMaxLength, len(label)-validation.LabelValueMaxLength))
}

// placementRefsValidator checks what belongs together in the placements: names
// among each other, and a strategy's settings with its type.
type placementRefsValidator struct{ attribute.Described }

func (placementRefsValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if len(req.ConfigValue.Elements()) == 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "No placements",
			"placements = [] selects no cluster, so the replica set would have nothing to do, and the hub refuses "+
				"it. Name at least one placement of the namespace.")
	}
	seen := map[string]int{}
	for i, element := range req.ConfigValue.Elements() {
		object, ok := element.(types.Object)
		if !ok || object.IsNull() || object.IsUnknown() {
			continue
		}
		at := req.Path.AtListIndex(i)
		if name, ok := object.Attributes()["name"].(types.String); ok && !name.IsNull() && !name.IsUnknown() {
			if first, twice := seen[name.ValueString()]; twice {
				resp.Diagnostics.AddAttributeError(at.AtName("name"), "Duplicate placement",
					fmt.Sprintf("placements[%d] and placements[%d] both name %q, and the hub could not tell which "+
						"strategy holds. Remove one of them.", first, i, name.ValueString()))
			}
			seen[name.ValueString()] = i
		}
		if strategy, _ := object.Attributes()["rollout_strategy"].(types.Object); len(strategy.Attributes()) > 0 {
			workload.CheckRollout(strategy, at.AtName("rollout_strategy"), &resp.Diagnostics)
		}
	}
}
