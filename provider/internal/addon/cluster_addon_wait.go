package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// When an add-on in a cluster is what a wait waits for.

// missingIn lists what is not as the wait wants it in a cluster, each in words. hashes are those of the
// configurations as they are now, as far as they were read.
func (m *addOnWaitModel) missingIn(object *v1alpha1.ManagedClusterAddOn, hashes hashesOf) []string {
	var missing []string
	if m.RolledOut.ValueBool() {
		missing = notApplied(object, hashes)
	}
	if m.Available.ValueBool() && !isAvailable(object) {
		missing = append(missing, "available: "+conditionText(object, addon.ConditionAvailable))
	}
	return missing
}

// notApplied lists what keeps the cluster from having the configurations that count
// there. The hub's conditions note no generation, so what it reports is about the
// present when it names the configurations of the specification, with their hashes.
func notApplied(object *v1alpha1.ManagedClusterAddOn, hashes hashesOf) []string {
	var missing []string
	referenced := map[v1alpha1.AddOnConfig]bool{}
	for _, r := range object.Status.ConfigReferences {
		if r.DesiredConfig == nil {
			continue
		}
		c := v1alpha1.AddOnConfig{ConfigGroupResource: r.ConfigGroupResource, ConfigReferent: r.DesiredConfig.ConfigReferent}
		referenced[c] = true
		hash, known := hashes[c]
		switch {
		case r.DesiredConfig.SpecHash == "":
			missing = append(missing, fmt.Sprintf("rolled_out: %s does not exist, or its manager has not looked at "+
				"it", configText(c)))
		case known && hash != r.DesiredConfig.SpecHash:
			missing = append(missing, fmt.Sprintf("rolled_out: the last change of %s has not come to the cluster's "+
				"turn", configText(c)))
		case !attribute.Same(r.DesiredConfig, r.LastAppliedConfig):
			missing = append(missing, fmt.Sprintf("rolled_out: the cluster does not have %s yet", configText(c)))
		}
	}
	for _, c := range object.Spec.Configs {
		if !referenced[c] {
			missing = append(missing, fmt.Sprintf("rolled_out: the hub has not reported on %s yet", configText(c)))
		}
	}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, addon.ConditionConfigured) {
		missing = append(missing, "rolled_out: "+conditionText(object, addon.ConditionConfigured))
	}
	c := meta.FindStatusCondition(object.Status.Conditions, addon.ConditionProgressing)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != addon.ReasonCompleted {
		missing = append(missing, "rolled_out: "+conditionText(object, addon.ConditionProgressing))
	}
	return missing
}

func configText(c v1alpha1.AddOnConfig) string {
	return c.Resource + " " + workload.Qualified(c.Namespace, c.Name)
}

func conditionText(object *v1alpha1.ManagedClusterAddOn, kind string) string {
	c := meta.FindStatusCondition(object.Status.Conditions, kind)
	if c == nil {
		return kind + " is not reported yet"
	}
	return fmt.Sprintf("%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
}

// followClusterAddOn is what comes after the add-on was written in a cluster.
func followClusterAddOn(_ context.Context, c *clusterAddOnChange) crud.Follow {
	f := crud.Follow{Attribute: clusterAddOnWaitAttribute()}
	if wait := waitIn(*c.Plan); wait != nil {
		f.Wait = wait.untilInCluster(c).Run
	}
	return f
}

// untilInCluster waits for the add-on in its cluster.
func (m *addOnWaitModel) untilInCluster(c *clusterAddOnChange) *crud.Wait {
	hashes, client, object := hashesOf{}, c.Client, c.Object
	return &crud.Wait{
		Client: client, What: c.What, Resource: "managedclusteraddon", Object: object, Timeout: c.Timeout,
		Gone: "it was deleted meanwhile, as the hub does where placements install the add-on and don't select the " +
			"cluster",
		Prepare: func(ctx context.Context) error {
			if object.DeletionTimestamp != nil {
				return errors.New("it is being deleted")
			}
			m.readHashes(ctx, client, object, hashes)
			return nil
		},
		Missing:    func() []string { return m.missingIn(object, hashes) },
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details:    func(ctx context.Context) []string { return describeInCluster(ctx, client, object) },
	}
}

// readHashes reads the configurations that count in the cluster, each once, as far as
// they are of the add-ons' own kinds and may be read.
func (m *addOnWaitModel) readHashes(
	ctx context.Context, client *kube.Client, object *v1alpha1.ManagedClusterAddOn, hashes hashesOf,
) {
	if !m.RolledOut.ValueBool() {
		return
	}
	for _, r := range object.Status.ConfigReferences {
		if r.DesiredConfig == nil || r.Group != addon.GroupName {
			continue
		}
		c := v1alpha1.AddOnConfig{ConfigGroupResource: r.ConfigGroupResource, ConfigReferent: r.DesiredConfig.ConfigReferent}
		if _, read := hashes[c]; read || (c.Resource != addon.TemplateResource && c.Resource != addon.DeploymentConfigResource) {
			continue
		}
		if hash, err := readHash(ctx, client, c); err == nil {
			hashes[c] = hash
		}
	}
}

// describeInCluster says what keeps an add-on in a cluster from being as it should be.
func describeInCluster(ctx context.Context, client *kube.Client, object *v1alpha1.ManagedClusterAddOn) []string {
	var lines []string
	if works, err := worksOf(ctx, client, object.Name); err == nil {
		for _, w := range slices.Concat(works[object.Namespace], works[object.Annotations[addon.HostingClusterAnnotation]]) {
			if why := replicaset.WorkTrouble(&w); why != "" {
				lines = append(lines, fmt.Sprintf("  work %s: %s", workload.Qualified(w.Namespace, w.Name), why))
			}
		}
	}
	if kube.IsNotFound(client.Get(ctx, &v1alpha1.ClusterManagementAddOn{}, "", object.Name), object.Name) {
		lines = append(lines, strings.TrimSpace(noAddOn(object.Name)))
	}
	managed := &clusterv1.ManagedCluster{}
	if err := client.Get(ctx, managed, "", object.Namespace); err == nil &&
		!meta.IsStatusConditionTrue(managed.Status.Conditions, cluster.ConditionAvailable) {
		lines = append(lines, fmt.Sprintf("The cluster %q is not available:", object.Namespace),
			hub.DescribeConditions(managed.Status.Conditions, time.Now()))
	}
	return lines
}
