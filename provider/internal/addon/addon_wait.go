package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"

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

// When an add-on is what a wait waits for.

type addOnWaitModel struct {
	RolledOut types.Bool `tfsdk:"rolled_out"`
	Available types.Bool `tfsdk:"available"`
}

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
func (m *addOnWaitModel) metBy(status *addOnStatusModel, addOns []v1alpha1.ManagedClusterAddOn) bool {
	if m.RolledOut.ValueBool() && !status.RolledOut.ValueBool() {
		return false
	}
	unavailable := func(x v1alpha1.ManagedClusterAddOn) bool { return !isAvailable(&x) }
	return !m.Available.ValueBool() || len(addOns) > 0 && !slices.ContainsFunc(addOns, unavailable)
}

func isAvailable(x *v1alpha1.ManagedClusterAddOn) bool {
	return meta.IsStatusConditionTrue(x.Status.Conditions, addon.ConditionAvailable)
}

// stopped is the trouble of a rollout that has stopped. A cluster that has failed may
// recover, and the hub goes on then.
const stopped = "the rollout has stopped"

// awaited is an add-on that is waited for.
type awaited struct {
	client *kube.Client
	wait   *addOnWaitModel

	mu     sync.Mutex
	object *v1alpha1.ClusterManagementAddOn
	// addOns are the add-on in clusters, by cluster; nil before they were read.
	addOns map[string]*v1alpha1.ManagedClusterAddOn
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
			return []string{fmt.Sprintf("%s for %s, so the wait ended before its "+
				"timeout.", why, attribute.ShortDuration(err.After))}
		},
		Details: a.describe,
		Next:    []string{"kubectl get managedclusteraddons -A --field-selector metadata.name=" + a.object.Name},
	}
}

// follow looks at each change of the add-on, on the hub and in all clusters, and of its
// works.
func (a *awaited) follow(ctx context.Context, look func() (bool, error)) error {
	a.hashes = readHashes(ctx, a.client, a.object)
	name, seen := a.object.Name, &v1alpha1.ClusterManagementAddOn{}
	list, item := &v1alpha1.ManagedClusterAddOnList{}, &v1alpha1.ManagedClusterAddOn{}
	return kube.First(ctx,
		func(ctx context.Context) error {
			return a.client.WaitObjects(ctx, list, item, named(name), func(objects map[string]kube.Object) (bool, error) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.addOns = map[string]*v1alpha1.ManagedClusterAddOn{}
				for _, object := range objects {
					if x, ok := object.(*v1alpha1.ManagedClusterAddOn); ok && x.Name == name {
						a.addOns[x.Namespace] = x
					}
				}
				return look()
			})
		},
		func(ctx context.Context) error {
			return a.client.Wait(ctx, seen, "", name, func(exists bool) (bool, error) {
				if !exists {
					return false, errors.New("it was deleted meanwhile")
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				*a.object = *seen.DeepCopy()
				return look()
			})
		},
		func(ctx context.Context) error {
			return replicaset.FollowWorks(ctx, a.client, worksNamed(name), func(works []*workv1.ManifestWork) (bool, error) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.works = works
				return look()
			})
		},
	)
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
		if x := a.addOns[w.Namespace]; x == nil || w.DeletionTimestamp != nil || !isConfigured(x) {
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
		a.chosen, err = a.selected(ctx)
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
	absent := slices.DeleteFunc(slices.Clone(a.chosen), func(name string) bool { return a.addOns[name] != nil })
	if len(absent) > 0 {
		return []string{"available: " + some(attribute.Sorted(absent)) + " have no add-on yet"}
	}
	return nil
}

// reported lists what the hub reports and is not as the wait wants it.
func (a *awaited) reported() []string {
	if a.addOns == nil {
		return []string{"the add-on in the clusters has yet to be read"}
	}
	var missing, unavailable []string
	if a.wait.RolledOut.ValueBool() {
		for _, line := range describePlacements(notRolledOut(a.object, a.hashes)) {
			missing = append(missing, "rolled_out: "+line)
		}
	}
	if a.wait.Available.ValueBool() {
		for _, x := range a.inClusters() {
			if !isAvailable(x) {
				unavailable = append(unavailable, x.Namespace)
			}
		}
	}
	if len(unavailable) > 0 {
		missing = append(missing, "available: it is not in "+some(unavailable))
	}
	return missing
}

// selected are the clusters that the placements have selected.
func (a *awaited) selected(ctx context.Context) ([]string, error) {
	var clusters []string
	for _, p := range a.object.Spec.InstallStrategy.Placements {
		list := &clusterv1beta1.PlacementDecisionList{}
		options := kube.ListOptions{Namespace: p.Namespace, LabelSelector: cluster.PlacementLabel + "=" + p.Name}
		if err := a.client.List(ctx, list, options); err != nil {
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

// inClusters are the add-on in all clusters, by their names.
func (a *awaited) inClusters() []*v1alpha1.ManagedClusterAddOn {
	out := make([]*v1alpha1.ManagedClusterAddOn, 0, len(a.addOns))
	for _, name := range slices.Sorted(maps.Keys(a.addOns)) {
		out = append(out, a.addOns[name])
	}
	return out
}

// readHashes reads the configurations of an add-on, those of the add-ons' own kinds, as
// far as they may be read. One that is not there has no hash.
func readHashes(ctx context.Context, client *kube.Client, object *v1alpha1.ClusterManagementAddOn) hashesOf {
	hashes := hashesOf{}
	for _, p := range configs.Progressions(object) {
		for _, r := range p.ConfigReferences {
			c := v1alpha1.AddOnConfig{ConfigGroupResource: r.ConfigGroupResource, ConfigReferent: r.DesiredConfig.ConfigReferent}
			if c.ConfigGroupResource != ownKind(addon.TemplateResource) && c.ConfigGroupResource != ownKind(addon.DeploymentConfigResource) {
				continue
			}
			hash, err := readHash(ctx, client, c)
			if err == nil {
				hashes[c] = hash
			}
		}
	}
	return hashes
}

// readHash hashes a configuration as it is on the wire.
func readHash(ctx context.Context, client *kube.Client, c v1alpha1.AddOnConfig) (string, error) {
	at := "/apis/" + v1alpha1.GroupVersion.String()
	if c.Namespace != "" {
		at += "/namespaces/" + c.Namespace
	}
	var object map[string]any
	if err := client.GetPath(ctx, at+"/"+c.Resource+"/"+c.Name, &object); err != nil {
		return "", err
	}
	return configs.Hash(object)
}
