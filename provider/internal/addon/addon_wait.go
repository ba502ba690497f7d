package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What the reports of a hub about an add-on mean. Its conditions note no generation, so
// that a report is about the present when it names the configurations of the
// specification, with the hashes that these have.

// progressing is the condition Progressing of a placement; empty without one.
func progressing(p v1alpha1.InstallProgression) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(p.Conditions, addon.ConditionProgressing), metav1.Condition{})
}

// isCompleted reports whether a condition Progressing says that nothing is left to do.
func isCompleted(c metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && c.Reason == addon.ReasonCompleted
}

// completed reports whether all clusters of a placement have what it wants.
func completed(p v1alpha1.InstallProgression) bool {
	return isCompleted(progressing(p)) &&
		!slices.ContainsFunc(p.ConfigReferences, func(r v1alpha1.InstallConfigReference) bool {
			return !attribute.Same(r.DesiredConfig, r.LastAppliedConfig)
		})
}

// noneOfItsOwn is the message of a placement all of whose clusters belong to later ones.
var noneOfItsOwn = regexp.MustCompile(
	`^selected clusters [1-9]\d*\. configured addons 0/0 progressing\.\.\., 0 failed 0 timeout`)

// hasNoneOfItsOwn reports whether later placements configure all of a placement's
// clusters, by the message of its condition. The hub never calls it completed then, and
// there is nothing to wait for.
func hasNoneOfItsOwn(message string) bool { return noneOfItsOwn.MatchString(message) }

// hashesOf are the hashes of configuration objects as they are now, as far as they were
// read.
type hashesOf map[v1alpha1.AddOnConfig]string

// read adds the hash of a configuration as it is on the wire, if it is of the add-ons' own
// kinds, is there, and may be read. It reads each one once.
func (h hashesOf) read(ctx context.Context, client *kube.Client, c v1alpha1.AddOnConfig) {
	if _, read := h[c]; read || ofKind(c.ConfigGroupResource) == nil {
		return
	}
	at := "/apis/" + v1alpha1.GroupVersion.String()
	if c.Namespace != "" {
		at += "/namespaces/" + c.Namespace
	}
	var object map[string]any
	if client.GetPath(ctx, at+"/"+c.Resource+"/"+c.Name, &object) != nil {
		return
	}
	if hash, err := configs.Hash(object); err == nil {
		h[c] = hash
	}
}

// wanted is a configuration that is to be there, of a kind.
func wanted(kind v1alpha1.ConfigGroupResource, desired *v1alpha1.ConfigSpecHash) v1alpha1.AddOnConfig {
	return v1alpha1.AddOnConfig{ConfigGroupResource: kind, ConfigReferent: desired.ConfigReferent}
}

// notRolledOut lists the placements in which the present configuration is not completed,
// each with the reason in words.
func notRolledOut(object fleetAddOn, hashes hashesOf) []string {
	var held []string
	for _, want := range configs.Progressions(object) {
		why := "the hub has not reported on it yet"
		for _, have := range object.Status.InstallProgressions {
			if have.PlacementRef != want.PlacementRef {
				continue
			}
			switch c := progressing(have); {
			case !sameReferences(want, have, hashes):
				why = "the hub has not reported on its present configuration yet"
			case completed(have), hasNoneOfItsOwn(c.Message):
				why = ""
			case c.Type != "":
				why = c.Reason + ": " + c.Message
			}
		}
		if why != "" {
			held = append(held, fmt.Sprintf("placement %s/%s: %s", want.Namespace, want.Name, why))
		}
	}
	return held
}

// sameReferences reports whether a progression is about the configurations that are
// wanted. One that does not exist has no hash, and holds the rollout up.
func sameReferences(want, have v1alpha1.InstallProgression, hashes hashesOf) bool {
	same := func(x, y v1alpha1.InstallConfigReference) bool {
		if y.DesiredConfig == nil {
			return false
		}
		c := wanted(x.ConfigGroupResource, x.DesiredConfig)
		hash, known := hashes[c]
		return c == wanted(y.ConfigGroupResource, y.DesiredConfig) && (!known || hash == y.DesiredConfig.SpecHash)
	}
	return slices.EqualFunc(want.ConfigReferences, have.ConfigReferences, same)
}

// progress is what the hub counts in the message of a progression.
var progress = regexp.MustCompile(`configured addons (\d+)/(\d+) ` +
	`(?:progressing\.\.\.|completed with no errors), (\d+) failed (\d+) timeout`)

// isStopped reports whether a rollout goes on in no placement: in each that is not
// completed clusters have failed, and none is under way.
func isStopped(object fleetAddOn, addOns []clusterAddOn) bool {
	done, busy, stopped := 0, 0, false
	for _, x := range addOns {
		if isConfigured(x) && !slices.ContainsFunc(x.Status.ConfigReferences, isMissing) {
			done++
		}
	}
	for _, p := range object.Status.InstallProgressions {
		message := progressing(p).Message
		counts := progress.FindStringSubmatch(message)
		if counts == nil {
			return false
		}
		busy += number(counts[1]) // the hub counts those that are done, too
		if completed(p) || hasNoneOfItsOwn(message) {
			continue
		}
		if number(counts[3])+number(counts[4]) == 0 {
			return false
		}
		stopped = true
	}
	return stopped && busy <= done
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // digits, as the expression has it
	return n
}

// isConfigured reports whether an add-on in a cluster has been told its present
// configuration.
func isConfigured(x clusterAddOn) bool {
	return meta.IsStatusConditionTrue(x.Status.Conditions, addon.ConditionConfigured)
}

func isAvailable(x clusterAddOn) bool {
	return meta.IsStatusConditionTrue(x.Status.Conditions, addon.ConditionAvailable)
}

// isMissing reports whether a cluster lacks the configuration that it is to have.
func isMissing(r v1alpha1.ConfigReference) bool {
	return !attribute.Same(r.DesiredConfig, r.LastAppliedConfig)
}

// When an add-on is what a wait waits for.

// waitModel is the attribute wait, of an add-on and of one in a cluster.
type waitModel struct {
	RolledOut types.Bool `tfsdk:"rolled_out"`
	Available types.Bool `tfsdk:"available"`
}

// waitIn is the attribute wait; nil without one.
func waitIn(values attribute.Values) *waitModel { return attribute.As[*waitModel](values["wait"]) }

func addOnWaitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "add-on",
		Until: "the hub reports everything that is set here, for all clusters that `placements` select; " +
			"it also waits for placements that select no cluster",
		Lost: "the add-on in all clusters",
		Notes: "A message names the clusters that hold it up. When the rollout has stopped because of clusters that " +
			"have failed, and stays so for 30 seconds, the wait ends before its timeout, and as for a " +
			"`muster_manifest_work` when an agent can't apply the add-on's objects.",
		Options: crud.WaitOptions{
			crud.WaitFlag("rolled_out", "Whether to wait until all clusters have the present configuration, "+
				"templates included, as `rolled_out` of the add-on reports."),
			crud.WaitFlag("available", "Whether to wait until the condition `Available` of the add-on is true in "+
				"all clusters. By itself it may be that of a former configuration: set `rolled_out`, too, to wait "+
				"for the present one."),
		},
	}
}

// metBy reports whether a wait that was not met is met by now, as far as was read.
func (m *waitModel) metBy(rolledOut bool, addOns []clusterAddOn) bool {
	unavailable := func(x clusterAddOn) bool { return !isAvailable(x) }
	return (rolledOut || !m.RolledOut.ValueBool()) &&
		(!m.Available.ValueBool() || len(addOns) > 0 && !slices.ContainsFunc(addOns, unavailable))
}

// stopped is the trouble of a rollout that has stopped. A cluster that has failed may
// recover, and the hub goes on then.
const stopped = "the rollout has stopped"

// awaited is an add-on that is waited for.
type awaited struct {
	client *kube.Client
	wait   *waitModel

	mu     sync.Mutex
	object fleetAddOn
	// addOns are the add-on in clusters, by their names; nil before they were read.
	addOns []clusterAddOn
	hashes hashesOf
	// chosen are the clusters that the placements have selected, once nothing else is
	// missing.
	chosen []string
	// works are the add-on's in the clusters, as far as they may be read.
	works []*workv1.ManifestWork
}

// until waits for the add-on, on the hub and in all clusters.
func (a *awaited) until(what string, timeout time.Duration) *crud.Wait {
	return &crud.Wait{
		Client: a.client, What: what, Resource: "clustermanagementaddon", Object: a.object, Timeout: timeout,
		Prepare: a.prepare, Missing: a.missing, Follow: a.follow, Troubles: a.troubles,
		GivenUp: func(err *kube.GaveUpError) []string {
			why := "The rollout has been stopped"
			if err.Text != stopped {
				why = "An agent can't apply its objects, and has reported the same errors"
			}
			return []string{fmt.Sprintf("%s for %s, so the wait ended before its timeout.",
				why, attribute.ShortDuration(err.After))}
		},
		Details: a.describe,
		Next:    []string{"kubectl get managedclusteraddons -A --field-selector metadata.name=" + a.object.Name},
	}
}

// follow looks at each change of the add-on, on the hub and in all clusters, and of its
// works.
func (a *awaited) follow(ctx context.Context, look func() (bool, error)) error {
	a.hashes = hashesOf{}
	for _, p := range configs.Progressions(a.object) {
		for _, r := range p.ConfigReferences {
			a.hashes.read(ctx, a.client, wanted(r.ConfigGroupResource, r.DesiredConfig))
		}
	}
	after := func(change func()) (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		change()
		return look()
	}
	name, seen := a.object.Name, &v1alpha1.ClusterManagementAddOn{}
	return kube.First(ctx,
		func(ctx context.Context) error {
			return followClusters(ctx, a.client, name, func(addOns []clusterAddOn) (bool, error) {
				return after(func() { a.addOns = addOns })
			})
		},
		func(ctx context.Context) error {
			return a.client.Wait(ctx, seen, "", name, func(exists bool) (bool, error) {
				if !exists {
					return false, errors.New("it was deleted meanwhile")
				}
				return after(func() { *a.object = *seen.DeepCopy() })
			})
		},
		func(ctx context.Context) error {
			seen := func(works []*workv1.ManifestWork) (bool, error) { return after(func() { a.works = works }) }
			return replicaset.FollowWorks(ctx, a.client, worksNamed(name), seen)
		},
	)
}

// followClusters shows the add-on in all clusters, by their names, with each change.
func followClusters(
	ctx context.Context, client *kube.Client, name string, look func([]clusterAddOn) (bool, error),
) error {
	list, item := &v1alpha1.ManagedClusterAddOnList{}, &v1alpha1.ManagedClusterAddOn{}
	return client.WaitObjects(ctx, list, item, named(name), func(objects map[string]kube.Object) (bool, error) {
		addOns := []clusterAddOn{}
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if x, ok := objects[key].(clusterAddOn); ok && x.Name == name {
				addOns = append(addOns, x)
			}
		}
		return look(addOns)
	})
}

// inCluster is the add-on in a cluster; nil where it is not.
func (a *awaited) inCluster(name string) clusterAddOn {
	for _, x := range a.addOns {
		if x.Namespace == name {
			return x
		}
	}
	return nil
}

// troubles are why the add-on will not be as the wait wants it: a rollout that has
// stopped, and what agents can't apply in clusters that have been told the present
// configuration. Its works follow a moment later, so that even a failure that no retry
// can change has to last. The caller holds the lock.
func (a *awaited) troubles() []kube.Trouble {
	var troubles []kube.Trouble
	if a.wait.RolledOut.ValueBool() && isStopped(a.object, a.addOns) {
		troubles = append(troubles, kube.Trouble{Text: stopped, After: workload.LastingPatience})
	}
	for _, w := range a.works {
		if x := a.inCluster(w.Namespace); x == nil || w.DeletionTimestamp != nil || !isConfigured(x) {
			continue
		}
		for _, t := range workload.TroublesIn(w) {
			troubles = append(troubles, kube.Trouble{Text: t.Text, After: workload.LastingPatience})
		}
	}
	return troubles
}

// prepare reads what the placements have selected, once nothing else is missing. The
// caller holds the lock.
func (a *awaited) prepare(ctx context.Context) (err error) {
	if a.wait.Available.ValueBool() && len(a.reported()) == 0 {
		a.chosen, err = decidedFor(ctx, a.client, a.object)
	}
	return err
}

// missing lists what is not as the wait wants it. The caller holds the lock.
func (a *awaited) missing() []string {
	missing := a.reported()
	switch {
	case len(missing) > 0 || !a.wait.Available.ValueBool():
		return missing
	case len(a.chosen) == 0:
		return []string{"available: the placements select no cluster"}
	}
	if absent := a.absent(a.chosen); len(absent) > 0 {
		return []string{"available: " + some(absent) + " have no add-on yet"}
	}
	return nil
}

// absent are those of some clusters that lack the add-on.
func (a *awaited) absent(clusters []string) []string {
	has := func(name string) bool { return a.inCluster(name) != nil }
	return attribute.Sorted(slices.DeleteFunc(slices.Clone(clusters), has))
}

// reported lists what the hub reports and is not as the wait wants it.
func (a *awaited) reported() []string {
	if a.addOns == nil {
		return []string{"the add-on in the clusters has yet to be read"}
	}
	var missing, unavailable []string
	if a.wait.RolledOut.ValueBool() {
		for _, line := range notRolledOut(a.object, a.hashes) {
			missing = append(missing, "rolled_out: "+line)
		}
	}
	for _, x := range a.addOns {
		if a.wait.Available.ValueBool() && !isAvailable(x) {
			unavailable = append(unavailable, x.Namespace)
		}
	}
	if len(unavailable) > 0 {
		missing = append(missing, "available: it is not in "+some(unavailable))
	}
	return missing
}

// decidedFor are the clusters that the placements of an add-on have selected.
func decidedFor(ctx context.Context, client *kube.Client, object fleetAddOn) ([]string, error) {
	var clusters []string
	for _, p := range object.Spec.InstallStrategy.Placements {
		list := &clusterv1beta1.PlacementDecisionList{}
		options := kube.ListOptions{Namespace: p.Namespace, LabelSelector: cluster.PlacementLabel + "=" + p.Name}
		if err := client.List(ctx, list, options); err != nil {
			return nil, fmt.Errorf("read what the placement %s/%s has selected: %w", p.Namespace, p.Name, err)
		}
		for _, decisions := range list.Items {
			for _, d := range decisions.Status.Decisions {
				clusters = append(clusters, d.ClusterName)
			}
		}
	}
	return clusters, nil
}
