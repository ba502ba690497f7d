package manifestwork

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// object is the ManifestWork that the model describes, without its objects.
func (m *manifestWorkModel) object() *workv1.ManifestWork {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name = m.ManagedCluster.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	m.Options.Write(&object.Spec)
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
	m.Options.Refresh(&object.Spec)
	m.Ready = crud.StillReady(m.Ready, m.Wait != nil, func() bool { return len(m.Wait.missing(object)) == 0 })
	m.Generation = types.Int64Value(object.Generation)
	m.report(object)
	return nil
}

func importWork(object *workv1.ManifestWork) (*manifestWorkModel, error) {
	m := &manifestWorkModel{
		ManagedCluster: types.StringValue(object.Namespace),
		Name:           types.StringValue(object.Name),
		Options:        OptionsOf(&object.Spec),
		Generation:     types.Int64Value(object.Generation),
		Timeouts:       attribute.NullTimeouts("create", "update", "delete"),
	}
	m.Labels, m.Annotations = workload.ImportMetadata(object)
	var err error
	m.Content, err = workload.Import(liveContent(object))
	m.report(object)
	return m, err
}

// unwanted are the options that somebody has added to the work.
func (m *manifestWorkModel) unwanted(live *workv1.ManifestWork) [][]string {
	return UnwantedOptions(&m.object().Spec, &live.Spec, "spec")
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
	away := describeCluster(ctx, client, object.Namespace, now)
	if len(away) == 0 {
		return attribute.JoinLines(append(lines, "", "The cluster is available, so its agent is at it. What holds the objects there, in the cluster:",
			"  kubectl get appliedmanifestworks", "  kubectl describe KIND NAME    # its finalizers, and what they wait for", "Apply again when they are gone."))
	}
	lines = append(lines, away...)
	lines = append(lines, "", "Apply again when the agent is back. "+crud.LostAdvice(object.Namespace), "or give the objects of this work alone up:",
		fmt.Sprintf("  kubectl patch manifestwork -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'", object.Namespace, object.Name))
	return attribute.JoinLines(lines)
}

// describeCluster says that a cluster is away or gone, if it is and the hub answers soon.
func describeCluster(ctx context.Context, client *kube.Client, name string, now time.Time) []string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	managed := &clusterv1.ManagedCluster{}
	err := client.Get(ctx, managed, "", name)
	if kube.IsNotFound(err, name) {
		return []string{fmt.Sprintf("The hub has no managed cluster %q any more.", name)}
	}
	if err != nil || meta.IsStatusConditionTrue(managed.Status.Conditions, cluster.ConditionAvailable) {
		return nil
	}
	return []string{fmt.Sprintf("The cluster %q is not available:", name), hub.DescribeConditions(managed.Status.Conditions, now)}
}
