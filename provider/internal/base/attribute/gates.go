package attribute

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// BesideGates are annotations that are other attributes, for AnnotationsBeside: that of
// GatesField, and others.
func BesideGates(others map[string]string) map[string]string {
	all := map[string]string{muster.RolloutGatesAnnotation: "use gates"}
	maps.Copy(all, others)
	return all
}

// GatesField are the gates of a rollout, which are an annotation. Its line in the table
// comes after that of the annotations.
func GatesField[P metav1.Object]() Field[P] {
	table := gatesTable()
	s := OptionalObjects("Gates before decision groups: nothing is handed out to the clusters of the group, and of " +
		"those after it, until somebody approves (`muster rollout approve`, or the action " +
		"`muster_approve_rollout`), or until a window of time opens. They are muster's own: hubs of Open Cluster " +
		"Management go on without them. See [Gates in a rollout](../guides/works.md#gates-in-a-rollout).")
	s.NestedObject.Attributes = table.Attributes()
	s.Validators = append(s.Validators, ValidList("gates as the hub takes them", checkGates))
	return Code("gates", s,
		func(value types.List, to P) {
			annotations := OrEmpty(to.GetAnnotations())
			annotations[muster.RolloutGatesAnnotation] = gatesText(value)
			to.SetAnnotations(annotations)
		},
		func(from P) types.List {
			gated, err := rollout.ReadGates(map[string]string{
				muster.RolloutGatesAnnotation: from.GetAnnotations()[muster.RolloutGatesAnnotation],
			})
			if err != nil || len(gated.Gates) == 0 {
				return types.ListNull(table.objectType())
			}
			return types.ListValueMust(table.objectType(), objectValues(table, gated.Gates))
		}).
		AtAnnotation(muster.RolloutGatesAnnotation).BesideOthers()
}

func gatesTable() Table[*rollout.Gate] {
	return Table[*rollout.Gate]{
		Text("group", Required("Name of the decision group, its index when it has no name, or `*` for every group but "+
			"the first."), func(g *rollout.Gate) *string { return &g.Group }),
		ObjectPointer("window", OptionalObject("When the gate is open. Without a window, somebody has to approve."),
			func(g *rollout.Gate) **rollout.Window { return &g.Window },
			TextList("days", OptionalTexts("Days of the week: `Mon`, `Tue`, `Wed`, `Thu`, `Fri`, `Sat`, `Sun`. "+
				"A window that ends on the next day belongs to the day on which it begins. Every day if omitted."),
				func(w *rollout.Window) *[]string { return &w.Days }),
			Text("from", Required("When it opens, as `22:00`."), func(w *rollout.Window) *string { return &w.From }),
			Text("to", Required("When it closes. When that is not after `from`, it is on the next day."),
				func(w *rollout.Window) *string { return &w.To }),
			Text("time_zone", Optional("Name of a time zone, as `Europe/Berlin`. Defaults to UTC."),
				func(w *rollout.Window) *string { return &w.TimeZone })),
	}
}

// gatesText are gates as the annotation has them.
func gatesText(value types.List) string {
	data, _ := json.Marshal(objectsIn(gatesTable(), value)) // of texts, which always can be
	return string(data)
}

// checkGates refuses gates that the hub would refuse.
func checkGates(at path.Path, list types.List, diags *diag.Diagnostics) {
	if !Known(list) || len(list.Elements()) == 0 {
		return
	}
	const key = muster.RolloutGatesAnnotation
	if _, err := rollout.ReadGates(map[string]string{key: gatesText(list)}); err != nil {
		said := strings.NewReplacer("the annotation "+key+": ", "", "the annotation "+key, "gates",
			"timeZone", "time_zone")
		diags.AddAttributeError(at, "Invalid gates", Capitalize(said.Replace(err.Error()))+".")
	}
}
