package status

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// reconcile brings the ManagedCluster's status up to date in one write, and
// returns after how long to look again.
func (c *Controller) reconcile(ctx context.Context) (after time.Duration, err error) {
	after = c.HealthPeriod
	mc := c.latest()
	if mc == nil {
		if filled(c.Clusters.Filled()) && filled(c.present.Filled()) {
			return after, c.namespaces.release(ctx, nil, c.present.Objects())
		}
		return after, nil
	}
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
		return after, nil
	}
	if meta.IsStatusConditionFalse(mc.Status.Conditions, cluster.ConditionClockSynced) {
		return after, errClock
	}
	if left := c.awaitClock(mc); left > 0 {
		return left, nil
	}
	mc, errAmend := c.amend(ctx, mc)
	reported := mc.DeepCopy()
	c.reportJoined(reported)
	available, soon := c.reportAvailable(ctx, reported)
	if soon {
		after = recheck
	}
	var errFacts, errNamespaces error
	if available {
		errFacts = c.reportFacts(ctx, reported)
		errNamespaces = c.reportNamespaces(ctx, reported)
	}
	if err := c.write(ctx, mc, reported); err != nil {
		return after, err
	}
	for _, err := range []error{errAmend, errFacts, errNamespaces} {
		if err != nil {
			return after, err
		}
	}
	return after, nil
}

// clockTimeout is how long the first report waits for the hub to judge the clock.
const clockTimeout = time.Second

// awaitClock returns how long to wait for the hub to judge the cluster's clock,
// which it does after the first heartbeat, with a write to the same object. A
// report at the same moment would conflict with it. Hubs that do not judge clocks
// are not waited for long.
func (c *Controller) awaitClock(mc *clusterv1.ManagedCluster) time.Duration {
	if meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionClockSynced) != nil {
		return 0
	}
	if c.accepted.IsZero() {
		c.accepted = c.Clock.Now()
	}
	return clockTimeout - c.Clock.Since(c.accepted)
}

func filled(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// amend lists the cluster's addresses that its ManagedCluster lacks, and keeps the
// agent's annotations. Only the agent's own rights allow that: a bootstrap identity
// may create the object but not change it.
func (c *Controller) amend(ctx context.Context, mc *clusterv1.ManagedCluster) (*clusterv1.ManagedCluster, error) {
	updated := mc.DeepCopy()
	missing := missingConfigs(mc.Spec.ManagedClusterClientConfigs, c.ClientConfigs)
	updated.Spec.ManagedClusterClientConfigs = append(updated.Spec.ManagedClusterClientConfigs, missing...)
	if !c.annotate(updated) && len(missing) == 0 {
		return mc, nil
	}
	if err := c.Hub.Update(ctx, updated); err != nil {
		return mc, fmt.Errorf("write the cluster's addresses and the agent's annotations into its ManagedCluster: %w", err)
	}
	c.wrote(mc, updated)
	return updated, nil
}

// annotate sets the annotations to keep, and reports whether one has changed.
func (c *Controller) annotate(mc *clusterv1.ManagedCluster) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, value := range c.annotations {
		have, ok := mc.Annotations[key]
		switch {
		case value == "" && ok:
			delete(mc.Annotations, key)
		case value != "" && have != value:
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, key, value)
		default:
			continue
		}
		changed = true
	}
	return changed
}

// missingConfigs are those of the wanted addresses that are not listed.
func missingConfigs(have, want []clusterv1.ClientConfig) []clusterv1.ClientConfig {
	return slices.DeleteFunc(slices.Clone(want), func(w clusterv1.ClientConfig) bool {
		return slices.ContainsFunc(have, func(h clusterv1.ClientConfig) bool { return h.URL == w.URL })
	})
}

func (c *Controller) reportJoined(mc *clusterv1.ManagedCluster) {
	c.set(mc, metav1.Condition{
		Type: cluster.ConditionJoined, Status: metav1.ConditionTrue,
		Reason: cluster.ReasonJoined, Message: cluster.MessageJoined,
	})
	c.mu.Lock()
	reported := slices.SortedFunc(maps.Values(c.reported), func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	c.mu.Unlock()
	for _, condition := range reported {
		c.set(mc, condition)
	}
}

// reportAvailable returns whether the API server is well, and whether to look
// again soon.
func (c *Controller) reportAvailable(ctx context.Context, mc *clusterv1.ManagedCluster) (ok, soon bool) {
	h := c.prober.probe(ctx)
	if ctx.Err() != nil {
		return false, true
	}
	failingFor := time.Duration(0)
	if !h.ok() {
		failingFor = c.Clock.Since(c.prober.failing)
		c.Log.Debug("the managed cluster's API server is not well", "code", h.code, "detail", h.detail, "for", failingFor)
	}
	condition, decided := availability(h, failingFor)
	if decided && !c.heartStopped(mc) {
		c.set(mc, condition)
	}
	return h.ok(), !h.ok()
}

// heartStopped reports whether the hub calls the cluster unknown because its
// heartbeats stopped, and there has been none since. If the agent contradicted the
// hub then, the two would overwrite each other without end.
func (c *Controller) heartStopped(mc *clusterv1.ManagedCluster) bool {
	have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
	if have == nil || have.Status != metav1.ConditionUnknown || have.Reason != cluster.ReasonLeaseUpdateStopped {
		return false
	}
	return c.Clock.Since(c.LastBeat()) > 2*mc.Spec.LeaseDuration()
}

// reportFacts adds version, size and claims.
func (c *Controller) reportFacts(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if filled(c.nodes.Filled()) {
		var capacity clusterv1.ResourceList
		capacity, mc.Status.Allocatable = sum(c.nodes.Objects())
		mc.Status.Capacity = merge(mc.Status.Capacity, capacity)
	}
	if filled(c.facts.known()) {
		var left int
		mc.Status.ClusterClaims, left = c.Claims.collect(c.facts.objects())
		if left != c.leftOut && left > 0 {
			c.Log.Warn("CustomClusterClaimsTruncated: not all cluster claims are reported to the hub: "+
				"allow more of them with --max-custom-cluster-claims, or delete some",
				"leftOut", left, "max", c.Claims.MaxCustom)
		}
		c.leftOut = left
	}
	v, err := c.version(ctx)
	if err != nil {
		return err
	}
	mc.Status.Version.Kubernetes = v
	return nil
}

func (c *Controller) version(ctx context.Context) (string, error) {
	body, err := c.LocalREST.Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("ask the managed cluster's API server for its version: %w", err)
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return "", fmt.Errorf("read the version of the managed cluster's API server: %w", err)
	}
	return info.GitVersion, nil
}

// reportNamespaces makes the namespaces that the cluster's sets want and
// reports on each of them.
func (c *Controller) reportNamespaces(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if !filled(c.present.Filled()) {
		return nil
	}
	present := c.present.Objects()
	c.namespaces.apply(ctx, mc.Status.ManagedNamespaces, present)
	return c.namespaces.release(ctx, mc.Status.ManagedNamespaces, present)
}

func (c *Controller) set(mc *clusterv1.ManagedCluster, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(c.Clock.Now())
	meta.SetStatusCondition(&mc.Status.Conditions, condition)
}

// write stores what has changed, if anything has, and makes an event of a change
// of availability.
func (c *Controller) write(ctx context.Context, from, to *clusterv1.ManagedCluster) error {
	now := from.DeepCopy()
	wrote, err := patch.Status(ctx, c.Hub, now, func() bool {
		now.Status = to.Status
		return !equality.Semantic.DeepEqual(from.Status, to.Status)
	})
	if err != nil {
		return fmt.Errorf("report the status of the cluster %s: %w", from.Name, err)
	}
	if !wrote {
		return nil
	}
	c.wrote(from, now)
	if event := availabilityEvent(from, to, c.Instance, c.Clock); event != nil {
		c.Log.Info(event.Note)
		if err := c.Hub.Create(ctx, event); err != nil {
			c.Log.Debug("cannot create an event on the hub", "reason", event.Reason, "err", err)
		}
	}
	return nil
}
