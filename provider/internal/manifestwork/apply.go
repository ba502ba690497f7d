package manifestwork

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// object is the ManifestWork that the model describes, without its objects.
func (m *manifestWorkModel) object() *workv1.ManifestWork {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name = m.ManagedCluster.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	object.Spec.DeleteOption = m.DeleteOption.Option()
	object.Spec.ManifestConfigs = ManifestConfigs(m.ManifestConfigs)
	object.Spec.Executor = m.Executor.Executor()
	return object
}

// liveContent are the objects of a work as the hub has it.
func liveContent(object *workv1.ManifestWork) workload.Live {
	return workload.Live{Manifests: object.Spec.Workload.Manifests, Annotations: object.Annotations}
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *manifestWorkModel) observe(object *workv1.ManifestWork) error {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	if err := m.Observe(liveContent(object)); err != nil {
		return err
	}
	if !attribute.Same(m.DeleteOption.Option(), object.Spec.DeleteOption) {
		m.DeleteOption = DeleteOptionModelOf(object.Spec.DeleteOption)
	}
	if !attribute.Same(ManifestConfigs(m.ManifestConfigs), object.Spec.ManifestConfigs) {
		m.ManifestConfigs = ManifestConfigModels(object.Spec.ManifestConfigs)
	}
	m.Executor = ExecutorModelOf(object.Spec.Executor)
	if m.Wait != nil && !m.Ready.ValueBool() {
		m.Ready = types.BoolValue(workIs(object, m.Wait.conditions()))
	}
	m.Generation = types.Int64Value(object.Generation)
	m.report(object)
	return nil
}

func importWork(object *workv1.ManifestWork) (manifestWorkModel, error) {
	owned := ownership.Of(object, hub.FieldManager)
	all := func(string) bool { return true }
	ours := func(key string) bool {
		return key != work.WriteOnlyAnnotation && attribute.ImportableAnnotation(key)
	}
	m := manifestWorkModel{
		ManagedCluster:  types.StringValue(object.Namespace),
		Name:            types.StringValue(object.Name),
		Labels:          attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, all),
		Annotations:     attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, ours),
		ManifestConfigs: ManifestConfigModels(object.Spec.ManifestConfigs),
		Executor:        ExecutorModelOf(object.Spec.Executor),
		Generation:      types.Int64Value(object.Generation),
		Conditions:      WorkConditionsValue(object.Status.Conditions),
		Feedback:        feedbackValue(object),
		Timeouts:        attribute.NullTimeouts("create", "update", "delete"),
	}
	if object.Spec.DeleteOption != nil {
		m.DeleteOption = DeleteOptionModelOf(object.Spec.DeleteOption)
	}
	var err error
	m.Content, err = workload.Import(liveContent(object))
	return m, err
}

// owned is the work as an object of the hub. Its manifests may hold secrets.
func (m *manifestWorkModel) owned(object *workv1.ManifestWork) crud.Owned {
	o := crud.Own(object, m.What(), m.ManagedCluster.ValueString()+"/"+m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Discreet = true
	o.Write.Unwanted = func(live kube.Object) [][]string {
		if work, ok := live.(*workv1.ManifestWork); ok {
			return UnwantedOptions(&object.Spec, &work.Spec, "spec")
		}
		return nil
	}
	return o
}

// UnwantedOptions are the options of a work, or of a template at a path, that
// somebody has added. Leaving one out means something: all objects go with the work,
// the agent's own rights apply, and nothing is treated specially.
func UnwantedOptions(wanted, live *workv1.ManifestWorkSpec, at ...string) [][]string {
	var unwanted [][]string
	for name, added := range map[string]bool{
		"deleteOption":    wanted.DeleteOption == nil && live.DeleteOption != nil,
		"executor":        wanted.Executor == nil && live.Executor != nil,
		"manifestConfigs": len(wanted.ManifestConfigs) == 0 && len(live.ManifestConfigs) > 0,
	} {
		if added {
			unwanted = append(unwanted, append(slices.Clone(at), name))
		}
	}
	return unwanted
}

func describeWorkDeletion(ctx context.Context, client *kube.Client, object *workv1.ManifestWork, timeout time.Duration) string {
	now := time.Now()
	lines := []string{
		fmt.Sprintf("The work was still there %s after its deletion was asked for.", timeout),
		hub.DescribeDeletion(object, now),
		hub.DescribeConditions(object.Status.Conditions, now),
	}
	lines = append(lines, describeCluster(ctx, client, object.Namespace, now)...)
	lines = append(lines, "", "Apply again when the agent is back. If the cluster is gone for good, give its objects up:",
		fmt.Sprintf("  kubectl patch manifestwork -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'", object.Namespace, object.Name))
	return attribute.JoinLines(lines)
}

// describeCluster says that a cluster is away, if it is and the hub answers soon.
func describeCluster(ctx context.Context, client *kube.Client, name string, now time.Time) []string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	managed := &clusterv1.ManagedCluster{}
	if err := client.Get(ctx, managed, "", name); err != nil || meta.IsStatusConditionTrue(managed.Status.Conditions, cluster.ConditionAvailable) {
		return nil
	}
	return []string{fmt.Sprintf("The cluster %q is not available:", name), hub.DescribeConditions(managed.Status.Conditions, now)}
}
