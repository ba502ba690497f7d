package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// When an add-on in a cluster is what a wait waits for.

// lacks lists what is not as the wait wants it, each in words. hashes are those of the
// configurations as they are now, as far as they were read.
func (m *clusterAddOnModel) lacks(object *v1alpha1.ManagedClusterAddOn, hashes hashesOf) []string {
	var lacks []string
	if m.Wait.RolledOut.ValueBool() {
		lacks = m.notApplied(object, hashes)
	}
	if m.Wait.Available.ValueBool() && !isAvailable(object) {
		lacks = append(lacks, "available: "+conditionText(object, addon.ConditionAvailable))
	}
	return lacks
}

// notApplied lists what keeps the cluster from having the configurations that count
// there. The hub's conditions note no generation, so what it reports is about the
// present when it names the configurations of the specification, with their hashes.
func (m *clusterAddOnModel) notApplied(object *v1alpha1.ManagedClusterAddOn, hashes hashesOf) []string {
	var lacks []string
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
			lacks = append(lacks, fmt.Sprintf("rolled_out: %s does not exist, or its manager has not looked at it", configText(c)))
		case known && hash != r.DesiredConfig.SpecHash:
			lacks = append(lacks, fmt.Sprintf("rolled_out: the last change of %s has not come to the cluster's turn", configText(c)))
		case !attribute.Same(r.DesiredConfig, r.LastAppliedConfig):
			lacks = append(lacks, fmt.Sprintf("rolled_out: the cluster does not have %s yet", configText(c)))
		}
	}
	for _, c := range object.Spec.Configs {
		if !referenced[c] {
			lacks = append(lacks, fmt.Sprintf("rolled_out: the hub has not reported on %s yet", configText(c)))
		}
	}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, addon.ConditionConfigured) {
		lacks = append(lacks, "rolled_out: "+conditionText(object, addon.ConditionConfigured))
	}
	c := meta.FindStatusCondition(object.Status.Conditions, addon.ConditionProgressing)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != addon.ReasonCompleted {
		lacks = append(lacks, "rolled_out: "+conditionText(object, addon.ConditionProgressing))
	}
	return lacks
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

// follow is what comes after the add-on was written. waiting ends with the timeout, ctx
// does not.
func (m *clusterAddOnModel) follow(ctx, waiting context.Context, client *kube.Client, object *v1alpha1.ManagedClusterAddOn, timeout time.Duration) crud.Follow {
	f := crud.Follow{Waits: m.Wait != nil, Ready: &m.Ready, Kind: "add-on", Report: func() { m.report(object) }}
	if m.Wait == nil || !m.Ready.IsUnknown() {
		return f
	}
	f.Wait = func() (summary, problem string) {
		hashes, err := m.until(waiting, client, object)
		summary = "Not ready: " + m.What()
		switch {
		case err == nil:
			return "", ""
		case hub.IsTimeout(err):
			return summary, m.describe(ctx, client, object, hashes, timeout)
		default:
			return summary, hub.Explain(client.Host(), "wait for it", err)
		}
	}
	return f
}

// until waits until the add-on is as the wait wants it. object is then what was seen
// last. How far it is goes to the provider's log, once per change.
func (m *clusterAddOnModel) until(ctx context.Context, client *kube.Client, object *v1alpha1.ManagedClusterAddOn) (hashesOf, error) {
	hashes, told := hashesOf{}, ""
	err := client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		switch {
		case !exists:
			return false, fmt.Errorf("it was deleted meanwhile, as the hub does where placements install the add-on and don't select the cluster")
		case object.DeletionTimestamp != nil:
			return false, fmt.Errorf("it is being deleted")
		}
		m.readHashes(ctx, client, object, hashes)
		lacks := m.lacks(object, hashes)
		if text := attribute.JoinLines(lacks); text != told && text != "" {
			told = text
			tflog.Info(ctx, fmt.Sprintf("Waiting for the %s\n%s", m.What(), text))
		}
		return len(lacks) == 0, nil
	})
	return hashes, err
}

// readHashes reads the configurations that count in the cluster, each once, as far as
// they are of the add-ons' own kinds and may be read.
func (m *clusterAddOnModel) readHashes(ctx context.Context, client *kube.Client, object *v1alpha1.ManagedClusterAddOn, hashes hashesOf) {
	if !m.Wait.RolledOut.ValueBool() {
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

// describe tells why an add-on in a cluster is not what was waited for.
func (m *clusterAddOnModel) describe(ctx context.Context, client *kube.Client, object *v1alpha1.ManagedClusterAddOn, hashes hashesOf, timeout time.Duration) string {
	now := time.Now()
	lines := []string{fmt.Sprintf("Within %s the add-on did not reach what is waited for:", attribute.ShortDuration(timeout))}
	for _, lack := range m.lacks(object, hashes) {
		lines = append(lines, "  "+lack)
	}
	lines = append(lines, "All conditions:", hub.DescribeConditions(object.Status.Conditions, now))
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	if works, err := worksOf(asking, client, object.Name); err == nil {
		for _, w := range slices.Concat(works[object.Namespace], works[object.Annotations[addon.HostingClusterAnnotation]]) {
			if why := replicaset.WorkTrouble(&w); why != "" {
				lines = append(lines, fmt.Sprintf("  work %s: %s", workload.Qualified(w.Namespace, w.Name), why))
			}
		}
	}
	if kube.IsNotFound(client.Get(asking, &v1alpha1.ClusterManagementAddOn{}, "", object.Name), object.Name) {
		lines = append(lines, strings.TrimSpace(noAddOn(object.Name)))
	}
	managed := &clusterv1.ManagedCluster{}
	if err := client.Get(asking, managed, "", object.Namespace); err == nil && !meta.IsStatusConditionTrue(managed.Status.Conditions, cluster.ConditionAvailable) {
		lines = append(lines, fmt.Sprintf("The cluster %q is not available:", object.Namespace), hub.DescribeConditions(managed.Status.Conditions, now))
	}
	return attribute.JoinLines(append(lines, "", "Next:", fmt.Sprintf("  kubectl describe managedclusteraddon -n %s %s", object.Namespace, object.Name)))
}
