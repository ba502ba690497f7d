package replicaset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// What the hub reports about a replica set, as attributes.

func statusTable() attribute.Table[replicaSet] {
	type summary = workv1alpha1.PlacementSummary
	return attribute.Table[replicaSet]{
		attribute.ReportedObject("summary", "Counts the works of all placements by what their conditions say, as "+
			"last read. One work can count under several headings.",
			func(object replicaSet) counts { return object.Status.Summary }, countFields()...),
		attribute.ReportedObjects("placement_summaries", "Counts the works placement by placement, as last read.",
			func(object replicaSet) []summary { return object.Status.PlacementsSummary },
			attribute.ReportedText("name", "Name of the placement.", func(s summary) string { return s.Name }),
			attribute.ReportedText("available_decision_groups", "In words: how many decision groups the placement "+
				"has, and how many of its clusters have the work.",
				func(s summary) string { return s.AvailableDecisionGroups }),
			attribute.ReportedObject("summary", "Counts the placement's works.",
				func(s summary) counts { return s.Summary }, countFields()...)),
		workload.Conditions("Conditions, as last read. `PlacementVerified`: the placements exist and select "+
			"clusters. `PlacementRolledOut`: the manifests have succeeded in every selected cluster. "+
			"`ManifestworkApplied`: all works are available and none is progressing or degraded.", "",
			func(object replicaSet) []metav1.Condition { return object.Status.Conditions }),
	}
}

type counts = workv1alpha1.ManifestWorkReplicaSetSummary

func countFields() []attribute.Field[counts] {
	return []attribute.Field[counts]{
		attribute.ReportedNumber("total", "Works that have the present manifests.",
			func(c counts) int { return c.Total }),
		attribute.ReportedNumber("applied", "Works whose objects the agent has written.",
			func(c counts) int { return c.Applied }),
		attribute.ReportedNumber("available", "Works whose objects all exist.",
			func(c counts) int { return c.Available }),
		attribute.ReportedNumber("progressing", "Works that are still on their way.",
			func(c counts) int { return c.Progressing }),
		attribute.ReportedNumber("degraded", "Works that are in trouble.",
			func(c counts) int { return c.Degraded }),
	}
}

func rolledOutAttribute() schema.BoolAttribute {
	return schema.BoolAttribute{
		MarkdownDescription: "Whether the present manifests have succeeded in every cluster: " +
			"`PlacementRolledOut` is true of the present configuration, and the placements select clusters at all.",
		Computed: true,
	}
}

// masked is a replica set as a state may show it, with no secrets in what is reported.
func masked(object replicaSet, c workload.Content) replicaSet {
	shown := *object
	shown.Status.Conditions = content().Live(object).Masker(c).Conditions(object.Status.Conditions)
	return &shown
}

// foundWork is a work in the data source, with what keeps it from being done.
type foundWork struct {
	*workv1.ManifestWork
	problem string
}

// dataTable has the attributes of the data source that the resource has not.
func dataTable(works []foundWork) attribute.Table[replicaSet] {
	status := func(name, description, condition string) attribute.Field[foundWork] {
		return attribute.ReportedText(name, description, func(w foundWork) metav1.ConditionStatus {
			return currentStatus(w.ManifestWork, condition)
		})
	}
	return attribute.Table[replicaSet]{
		workload.TextsOf[replicaSet]("The objects", "muster_manifest_work_replica_set"),
		attribute.Reported("rolled_out", rolledOutAttribute(),
			func(object replicaSet) types.Bool { return types.BoolValue(rolledOut(object, nil)) }),
		attribute.ReportedObjects("works", "The works that there are, by cluster and name. The conditions are `True`, "+
			"`False`, `Unknown` (also while the agent has not reported on the work's present manifests) or empty, "+
			"when the agent does not report them.",
			func(replicaSet) []foundWork { return works },
			attribute.ReportedText("managed_cluster", "Cluster of the work.",
				func(w foundWork) string { return w.Namespace }),
			attribute.ReportedText("name", "Name of the work.", func(w foundWork) string { return w.Name }),
			attribute.ReportedText("placement", "Placement that selected the cluster.",
				func(w foundWork) string { return w.Labels[work.PlacementNameLabel] }),
			status("applied", "Whether the agent has written all objects.", work.ConditionApplied),
			status("available", "Whether the objects all exist.", work.ConditionAvailable),
			status("progressing", "Whether the objects are still on their way.", work.ConditionProgressing),
			status("degraded", "Whether some object is in trouble.", work.ConditionDegraded),
			attribute.ReportedText("problem", "What keeps the work from being done, in a sentence; empty when nothing "+
				"does. What can't be applied is told in the words of the cluster's API server.",
				func(w foundWork) string { return w.problem })),
	}
}

// readData reads the works, and what may have secrets.
func readData(ctx context.Context, client *kube.Client, object replicaSet) (attribute.Values, error) {
	live := content().Live(object)
	hide := live.Masker(workload.None())
	works, err := Works(ctx, client, object.Namespace, object.Name)
	if err != nil {
		return nil, err
	}
	var found []foundWork
	for i := range works {
		found = append(found, foundWork{&works[i], hide.Text(WorkTrouble(&works[i]))})
	}
	values := append(dataTable(found), statusTable()...).Read(masked(object, workload.None()))
	values["manifests"], err = live.Texts()
	return values, err
}

// currentStatus is what a condition says of the work's present generation: Unknown
// when it tells of an earlier one, and nothing when it isn't reported.
func currentStatus(w *workv1.ManifestWork, condition string) metav1.ConditionStatus {
	c := meta.FindStatusCondition(w.Status.Conditions, condition)
	switch {
	case c == nil:
		return ""
	case c.ObservedGeneration != 0 && c.ObservedGeneration < w.Generation:
		return metav1.ConditionUnknown
	}
	return c.Status
}

// replicaSetMark is what a write left: by it one can tell whether the hub has
// reported since. It is kept in the private state, for the wait of a later apply.
type replicaSetMark struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	// Status and Metadata are hashes.
	Status   string `json:"status"`
	Metadata string `json:"metadata"`
	// Reported says that works had been reported by then. Without any, no
	// condition can be out of date.
	Reported bool `json:"reported"`
}

// replicaSetMarkKey is its place in the private state.
const replicaSetMarkKey = "written"

func markOf(object replicaSet) *replicaSetMark {
	return &replicaSetMark{
		UID: string(object.UID), ResourceVersion: object.ResourceVersion, Status: hashOf(object.Status),
		Metadata: hashOf([]any{
			object.Labels, object.Annotations, object.Finalizers, object.DeletionTimestamp, object.Generation,
		}),
		Reported: object.Status.Summary.Total > 0,
	}
}

func hashOf(value any) string {
	text, _ := json.Marshal(value) // No value of the API fails.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// supersededBy reports whether the object's status was written after the mark.
// The hub writes it with the resource version that it has read, so that what
// comes after our write knows of our write. A new resource version alone may be
// somebody's new label; one that left all the rest as it was is a report that
// says the same as the one before.
func (w *replicaSetMark) supersededBy(object replicaSet) bool {
	now := markOf(object)
	return !w.Reported || now.UID != w.UID || now.Status != w.Status ||
		(now.ResourceVersion != w.ResourceVersion && now.Metadata == w.Metadata)
}

// sameWorks reports whether a change from one plan or state to the other leaves the
// works as they are, so that the hub has nothing new to report: strategies and
// the deletion policy make no difference to a rollout that is over.
func sameWorks(a, b attribute.Values) bool {
	spec := func(values attribute.Values) (workv1.ManifestWorkSpec, []string) {
		var object workv1alpha1.ManifestWorkReplicaSet
		specTable().Write(values, &object)
		var names []string
		for _, ref := range object.Spec.PlacementRefs {
			names = append(names, ref.Name)
		}
		if own := object.Annotations[muster.OverrideAnnotation]; own != "" {
			names = append(names, " "+own)
		}
		return object.Spec.ManifestWorkTemplate, attribute.Sorted(names)
	}
	x, of := spec(a)
	y, as := spec(b)
	return workload.ContentOf(a).Same(workload.ContentOf(b)) && attribute.Same(x, y) && slices.Equal(of, as)
}

// noted is the mark of the last write that changed the works, or nil.
func noted(ctx context.Context, private crud.PrivateReader, diags *diag.Diagnostics) *replicaSetMark {
	text, problems := private.GetKey(ctx, replicaSetMarkKey)
	diags.Append(problems...)
	if len(text) == 0 {
		return nil
	}
	mark := &replicaSetMark{}
	if json.Unmarshal(text, mark) != nil {
		return nil // another version of the provider wrote it: as good as nothing
	}
	return mark
}

// noteWrite notes what the hub has reported up to a write that changes the works, for
// this wait and later ones.
func noteWrite(ctx context.Context, c *change) *replicaSetMark {
	if c.Prior != nil && sameWorks(c.Prior, c.Plan) {
		return noted(ctx, c.Private, c.Diagnostics)
	}
	written := markOf(c.Object)
	if c.Prior != nil {
		text, _ := json.Marshal(written) // It has only texts.
		c.Diagnostics.Append(c.NewPrivate.SetKey(ctx, replicaSetMarkKey, text)...)
	}
	return written
}
