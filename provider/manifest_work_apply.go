package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// object is the ManifestWork that the configuration describes.
func (m *manifestWorkModel) object() (*workv1.ManifestWork, error) {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name = m.ManagedCluster.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = stringMap(m.Labels), stringMap(m.Annotations)
	manifests, err := manifest.ParseAll(stringList(m.Manifests))
	if err != nil {
		return nil, err
	}
	for _, x := range manifests {
		object.Spec.Workload.Manifests = append(object.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: x.JSON}})
	}
	object.Spec.DeleteOption = m.DeleteOption.option()
	object.Spec.ManifestConfigs = manifestConfigs(m.ManifestConfigs)
	object.Spec.Executor = m.Executor.executor()
	return object, nil
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *manifestWorkModel) observe(object *workv1.ManifestWork) error {
	own, err := m.object()
	if err != nil {
		own = &workv1.ManifestWork{} // a state that can't be read any more differs
	}
	m.Labels = observedMap(m.Labels, object.Labels)
	m.Annotations = observedMap(m.Annotations, object.Annotations)
	live, err := liveManifests(object)
	if err != nil {
		return err
	}
	if mine, err := manifest.ParseAll(stringList(m.Manifests)); err != nil || !manifest.Equal(mine, live) {
		if m.Manifests, err = manifestTexts(live); err != nil {
			return err
		}
	}
	if m.DeleteOption != nil && !same(own.Spec.DeleteOption, object.Spec.DeleteOption) {
		m.DeleteOption = deleteOptionModelOf(object.Spec.DeleteOption)
	}
	if m.ManifestConfigs != nil && !same(own.Spec.ManifestConfigs, object.Spec.ManifestConfigs) {
		m.ManifestConfigs = manifestConfigModels(object.Spec.ManifestConfigs)
	}
	if m.Executor != nil {
		m.Executor = executorModelOf(object.Spec.Executor)
	}
	if m.Wait != nil && !m.Ready.ValueBool() {
		m.Ready = types.BoolValue(workIs(object, m.Wait.types()))
	}
	return nil
}

func importWork(object *workv1.ManifestWork) (manifestWorkModel, error) {
	owned := ownership.Of(object, fieldManager)
	all := func(string) bool { return true }
	m := manifestWorkModel{
		ManagedCluster:  types.StringValue(object.Namespace),
		Name:            types.StringValue(object.Name),
		Labels:          importedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, all),
		Annotations:     importedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, all),
		ManifestConfigs: manifestConfigModels(object.Spec.ManifestConfigs),
		Executor:        executorModelOf(object.Spec.Executor),
		Timeouts:        nullTimeouts("create", "update", "delete"),
	}
	if object.Spec.DeleteOption != nil {
		m.DeleteOption = deleteOptionModelOf(object.Spec.DeleteOption)
	}
	live, err := liveManifests(object)
	if err != nil {
		return m, err
	}
	m.Manifests, err = manifestTexts(live)
	return m, err
}

func liveManifests(object *workv1.ManifestWork) ([]manifest.Object, error) {
	var objects []manifest.Object
	for i, x := range object.Spec.Workload.Manifests {
		parsed, err := manifest.FromJSON(x.Raw)
		if err != nil {
			return nil, fmt.Errorf("reading manifest %d of the work: %w", i, err)
		}
		objects = append(objects, parsed)
	}
	return objects, nil
}

func manifestTexts(objects []manifest.Object) (types.List, error) {
	texts := []string{}
	for _, object := range objects {
		text, err := object.YAML()
		if err != nil {
			return types.ListNull(types.StringType), err
		}
		texts = append(texts, text)
	}
	return stringListValue(texts), nil
}

// applyWork writes the work. The namespace of a cluster that is just being
// accepted may not be there yet: that is waited for, but only for a cluster that
// exists.
func applyWork(ctx context.Context, client *kube.Client, object *workv1.ManifestWork, doing string, force bool, timeout time.Duration, diags *diag.Diagnostics) bool {
	namespace := object.Namespace
	for {
		wanted := object.DeepCopy()
		err := client.Apply(ctx, wanted, kube.ApplyOptions{Manager: fieldManager, Force: force})
		if err == nil {
			*object = *wanted
			return true
		}
		if !kube.IsNamespaceNotFound(err, namespace) {
			addAPIError(diags, client, doing, err)
			return false
		}
		managed := &clusterv1.ManagedCluster{}
		switch err := client.Get(ctx, managed, "", namespace); {
		case kube.IsNotFound(err, namespace):
			diags.AddError("Cannot "+doing, fmt.Sprintf("The hub %s has no managed cluster %q. Create it with muster_managed_cluster and refer to that resource's name, or correct managed_cluster.", client.Host(), namespace))
			return false
		case err != nil:
			addAPIError(diags, client, doing, err)
			return false
		}
		err = client.Wait(ctx, &corev1.Namespace{}, "", namespace, func(exists bool) (bool, error) { return exists, nil })
		if isTimeout(err) {
			diags.AddError("Cannot "+doing, fmt.Sprintf("The managed cluster %q exists, but the hub gave it no namespace within %s, which it does when the cluster is accepted. "+
				"Add a muster_cluster_acceptance for it and let this work depend on that. Conditions:\n%s", namespace, timeout, describeConditions(managed.Status.Conditions, time.Now())))
			return false
		}
		if err != nil {
			addAPIError(diags, client, doing, err)
			return false
		}
	}
}

// workIs reports whether all these conditions are true of the work's present
// generation. Conditions without a generation count as up to date.
func workIs(object *workv1.ManifestWork, conditions []string) bool {
	for _, name := range conditions {
		c := meta.FindStatusCondition(object.Status.Conditions, name)
		if c == nil || c.Status != metav1.ConditionTrue || (c.ObservedGeneration != 0 && c.ObservedGeneration < object.Generation) {
			return false
		}
	}
	return true
}

func waitForWork(ctx context.Context, client *kube.Client, object *workv1.ManifestWork, conditions []string) error {
	return client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("it was deleted meanwhile")
		}
		return workIs(object, conditions), nil
	})
}

// describeWork tells why a work is not ready: its conditions, those of the
// objects that are at fault, and whether its cluster is there at all.
func describeWork(ctx context.Context, client *kube.Client, object *workv1.ManifestWork, wanted []string, timeout time.Duration) string {
	now := time.Now()
	lines := []string{
		fmt.Sprintf("Within %s not all of %v became true for generation %d. Conditions:", timeout, wanted, object.Generation),
		describeConditions(object.Status.Conditions, now),
	}
	for _, m := range object.Status.ResourceStatus.Manifests {
		for _, c := range m.Conditions {
			if c.Status == metav1.ConditionFalse && (c.Type == work.ConditionApplied || c.Type == work.ConditionAvailable) {
				lines = append(lines, fmt.Sprintf("  %s %s: %s is False (%s): %s", m.ResourceMeta.Kind, qualified(m.ResourceMeta.Namespace, m.ResourceMeta.Name), c.Type, c.Reason, c.Message))
			}
		}
	}
	lines = append(lines, describeCluster(ctx, client, object.Namespace, now)...)
	lines = append(lines, "", "Next:", fmt.Sprintf("  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name))
	return joinLines(lines)
}

func describeWorkDeletion(ctx context.Context, client *kube.Client, object *workv1.ManifestWork, timeout time.Duration) string {
	now := time.Now()
	lines := []string{
		fmt.Sprintf("The work was still there %s after its deletion was asked for.", timeout),
		describeDeletion(object, now),
		describeConditions(object.Status.Conditions, now),
	}
	lines = append(lines, describeCluster(ctx, client, object.Namespace, now)...)
	lines = append(lines, "", "Apply again when the agent is back. If the cluster is gone for good, give its objects up:",
		fmt.Sprintf("  kubectl patch manifestwork -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'", object.Namespace, object.Name))
	return joinLines(lines)
}

// describeCluster says that a cluster is away, if it is and the hub answers soon.
func describeCluster(ctx context.Context, client *kube.Client, name string, now time.Time) []string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	managed := &clusterv1.ManagedCluster{}
	if err := client.Get(ctx, managed, "", name); err != nil || meta.IsStatusConditionTrue(managed.Status.Conditions, cluster.ConditionAvailable) {
		return nil
	}
	return []string{fmt.Sprintf("The cluster %q is not available:", name), describeConditions(managed.Status.Conditions, now)}
}

func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
