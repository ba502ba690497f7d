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

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// When an add-on in a cluster is what a wait waits for.

// missingIn lists what is not as the wait wants it in a cluster, each in words. hashes are
// those of the configurations as they are now, as far as they were read.
func (m *waitModel) missingIn(object clusterAddOn, hashes hashesOf) []string {
	var missing []string
	if m.RolledOut.ValueBool() {
		for _, why := range notApplied(object, hashes) {
			missing = append(missing, "rolled_out: "+why)
		}
	}
	if m.Available.ValueBool() && !isAvailable(object) {
		missing = append(missing, "available: "+conditionText(object, addon.ConditionAvailable))
	}
	return missing
}

// notApplied lists what keeps the cluster from having the configurations that count
// there.
func notApplied(object clusterAddOn, hashes hashesOf) []string {
	var missing []string
	referenced := map[v1alpha1.AddOnConfig]bool{}
	for _, r := range wantedIn(object) {
		c := wanted(r.ConfigGroupResource, r.DesiredConfig)
		referenced[c] = true
		hash, known := hashes[c]
		switch {
		case r.DesiredConfig.SpecHash == "":
			missing = append(missing, configText(c)+" does not exist, or its manager has not looked at it")
		case known && hash != r.DesiredConfig.SpecHash:
			missing = append(missing, "the last change of "+configText(c)+" has not come to the cluster's turn")
		case isMissing(r):
			missing = append(missing, "the cluster does not have "+configText(c)+" yet")
		}
	}
	for _, c := range object.Spec.Configs {
		if !referenced[c] {
			missing = append(missing, "the hub has not reported on "+configText(c)+" yet")
		}
	}
	if !isConfigured(object) {
		missing = append(missing, conditionText(object, addon.ConditionConfigured))
	}
	c := meta.FindStatusCondition(object.Status.Conditions, addon.ConditionProgressing)
	if c == nil || !isCompleted(*c) {
		missing = append(missing, conditionText(object, addon.ConditionProgressing))
	}
	return missing
}

func configText(c v1alpha1.AddOnConfig) string {
	return c.Resource + " " + workload.Qualified(c.Namespace, c.Name)
}

func conditionText(object clusterAddOn, kind string) string {
	c := meta.FindStatusCondition(object.Status.Conditions, kind)
	if c == nil {
		return kind + " is not reported yet"
	}
	return hub.DescribeCondition(*c, time.Time{})
}

// followClusterAddOn is what comes after the add-on was written in a cluster.
func followClusterAddOn(_ context.Context, c *clusterAddOnChange) crud.Follow {
	f := crud.Follow{Attribute: clusterAddOnWaitAttribute()}
	if wait := waitIn(c.Plan); wait != nil {
		f.Wait = wait.untilInCluster(c).Run
	}
	return f
}

// untilInCluster waits for the add-on in its cluster.
func (m *waitModel) untilInCluster(c *clusterAddOnChange) *crud.Wait {
	hashes, client, object := hashesOf{}, c.Client, c.Object
	return &crud.Wait{
		Client: client, What: c.What, Resource: "managedclusteraddon", Object: object, Timeout: c.Timeout,
		Gone: "it was deleted meanwhile, as the hub does where placements install the add-on and don't select the " +
			"cluster",
		Prepare: func(ctx context.Context) error {
			if object.DeletionTimestamp != nil {
				return errors.New("it is being deleted")
			}
			for _, r := range wantedIn(object) {
				if m.RolledOut.ValueBool() {
					hashes.read(ctx, client, wanted(r.ConfigGroupResource, r.DesiredConfig))
				}
			}
			return nil
		},
		Missing:    func() []string { return m.missingIn(object, hashes) },
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details:    func(ctx context.Context) []string { return describeInCluster(ctx, client, object) },
	}
}

// describeInCluster says what keeps an add-on in a cluster from being as it should be.
func describeInCluster(ctx context.Context, client *kube.Client, object clusterAddOn) []string {
	var lines []string
	if works, err := worksOf(ctx, client, object.Name); err == nil {
		lines = describeWorks("  ",
			slices.Concat(works[object.Namespace], works[object.Annotations[addon.HostingClusterAnnotation]]))
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
