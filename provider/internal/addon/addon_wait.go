package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// When an add-on is what a wait waits for.

type addOnWaitModel struct {
	RolledOut types.Bool `tfsdk:"rolled_out"`
	Available types.Bool `tfsdk:"available"`
}

func addOnWaitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Waits, after creating or changing the add-on, until the hub reports everything that is set here, for all clusters that `placements` select. It also waits for placements that select no cluster. " +
			"A wait that fails makes an update fail, and names the clusters that hold it up. After a creation it only warns and leaves `ready` false, because an error would make Terraform destroy and re-create the add-on in all clusters; " +
			"the next apply waits again. When the rollout has stopped because of clusters that have failed, and stays so for 30 seconds, the wait ends before its timeout. To make the run fail there, too, use `lifecycle { postcondition { condition = self.ready ... } }`.",
		Optional:   true,
		Validators: []validator.Object{addOnWaitValidator{"rolled_out = true, or available = true, or both"}},
		Attributes: map[string]schema.Attribute{
			"rolled_out": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait until all clusters have the present configuration, templates included, as `rolled_out` of the add-on reports.",
				Optional:            true,
			},
			"available": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait until the condition `Available` of the add-on is true in all clusters. By itself it may be that of a former configuration: set `rolled_out`, too, to wait for the present one.",
				Optional:            true,
			},
		},
	}
}

// addOnWaitValidator refuses a wait for nothing.
type addOnWaitValidator struct{ attribute.Described }

// ValidateObject implements validator.Object.
func (addOnWaitValidator) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	checkAddOnWait(req.Path, req.ConfigValue.Attributes(), &resp.Diagnostics)
}

func checkAddOnWait(at path.Path, attributes map[string]attr.Value, diags *diag.Diagnostics) {
	for _, name := range []string{"rolled_out", "available"} {
		if value, ok := attributes[name].(types.Bool); ok && (value.IsUnknown() || value.ValueBool()) {
			return
		}
	}
	diags.AddAttributeError(at, "Nothing to wait for", "The wait names nothing that it waits for: set rolled_out = true or available = true, or remove the wait.")
}

// what is what the wait is for, in words.
func (m *addOnWaitModel) what() string {
	var names []string
	if m.RolledOut.ValueBool() {
		names = append(names, "rolled_out")
	}
	if m.Available.ValueBool() {
		names = append(names, "available")
	}
	return strings.Join(names, ", ")
}

// metBy reports whether a wait that was not met is met by now, as far as was read.
func (m *addOnWaitModel) metBy(status *addOnStatusModel, addOns []v1alpha1.ManagedClusterAddOn) bool {
	if m.RolledOut.ValueBool() && !status.RolledOut.ValueBool() {
		return false
	}
	return !m.Available.ValueBool() || len(addOns) > 0 && !slices.ContainsFunc(addOns, func(x v1alpha1.ManagedClusterAddOn) bool { return !isAvailable(&x) })
}

func isAvailable(x *v1alpha1.ManagedClusterAddOn) bool {
	return meta.IsStatusConditionTrue(x.Status.Conditions, addon.ConditionAvailable)
}

// stoppedPatience is how long a rollout has to stay stopped before a wait ends for it.
// A cluster that has failed may recover, and the hub goes on then.
const stoppedPatience = 30 * time.Second

// errStopped is that a rollout has stayed stopped.
var errStopped = errors.New("the rollout has stopped")

// awaited is an add-on that is waited for.
type awaited struct {
	client   *kube.Client
	wait     *addOnWaitModel
	patience time.Duration

	mu     sync.Mutex
	object *v1alpha1.ClusterManagementAddOn
	// addOns are the add-on in clusters, by cluster; nil before they were read.
	addOns map[string]*v1alpha1.ManagedClusterAddOn
	hashes hashesOf
	told   string
	// giveUp runs while the rollout is stopped.
	giveUp *time.Timer
}

// until follows the add-on, on the hub and in all clusters, until it is as the wait
// wants it. object and the add-on in the clusters are then what was seen last.
func (a *awaited) until(ctx context.Context) error {
	a.hashes = readHashes(ctx, a.client, a.object)
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	results := make(chan error, 2)
	var running sync.WaitGroup
	name, seen := a.object.Name, &v1alpha1.ClusterManagementAddOn{}
	running.Go(func() {
		results <- a.client.WaitObjects(watching, &v1alpha1.ManagedClusterAddOnList{}, &v1alpha1.ManagedClusterAddOn{}, named(name), func(objects map[string]kube.Object) (bool, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.addOns = map[string]*v1alpha1.ManagedClusterAddOn{}
			for _, object := range objects {
				if x, ok := object.(*v1alpha1.ManagedClusterAddOn); ok && x.Name == name {
					a.addOns[x.Namespace] = x
				}
			}
			return a.look(watching, stop)
		})
	})
	running.Go(func() {
		results <- a.client.Wait(watching, seen, "", name, func(exists bool) (bool, error) {
			if !exists {
				return false, errors.New("it was deleted meanwhile")
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			*a.object = *seen.DeepCopy()
			return a.look(watching, stop)
		})
	})
	err := <-results
	stop(nil)
	running.Wait() // the other one ends for the first
	if a.giveUp != nil {
		a.giveUp.Stop()
	}
	if errors.Is(context.Cause(watching), errStopped) {
		return errStopped
	}
	return err
}

// look reports whether all is as the wait wants it, and has the wait end when the
// rollout stays stopped. The caller holds the lock.
func (a *awaited) look(ctx context.Context, stop context.CancelCauseFunc) (bool, error) {
	met, err := a.met(ctx)
	switch stopped := !met && a.wait.RolledOut.ValueBool() && isStopped(a.object, a.addOns); {
	case !stopped && a.giveUp != nil:
		a.giveUp.Stop()
		a.giveUp = nil
	case stopped && a.giveUp == nil && a.patience > 0:
		a.giveUp = time.AfterFunc(a.patience, func() { stop(errStopped) })
	}
	return met, err
}

// met reports whether all is as the wait wants it. The caller holds the lock.
func (a *awaited) met(ctx context.Context) (bool, error) {
	if a.addOns == nil {
		return false, nil
	}
	held := notRolledOut(a.object, a.hashes)
	if a.wait.RolledOut.ValueBool() && len(held) > 0 {
		a.tell(ctx, held)
		return false, nil
	}
	if !a.wait.Available.ValueBool() {
		return true, nil
	}
	for _, x := range a.addOns {
		if !isAvailable(x) {
			a.tell(ctx, held)
			return false, nil
		}
	}
	selected, err := a.selected(ctx)
	if err != nil || len(selected) == 0 {
		return false, err
	}
	return !slices.ContainsFunc(selected, func(name string) bool { return a.addOns[name] == nil }), nil
}

// selected are the clusters that the placements have selected.
func (a *awaited) selected(ctx context.Context) ([]string, error) {
	var clusters []string
	for _, p := range a.object.Spec.InstallStrategy.Placements {
		list := &clusterv1beta1.PlacementDecisionList{}
		if err := a.client.List(ctx, list, kube.ListOptions{Namespace: p.Namespace, LabelSelector: cluster.PlacementLabel + "=" + p.Name}); err != nil {
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

// tell notes in the provider's log how far the add-on is, once per change.
func (a *awaited) tell(ctx context.Context, held []heldPlacement) {
	text := attribute.JoinLines(append(describePlacements(held), describeClusters(a.object, a.inClusters(), nil)...))
	if text != a.told {
		a.told = text
		tflog.Info(ctx, fmt.Sprintf("Waiting for the add-on %s (%s)\n%s", a.object.Name, a.wait.what(), text))
	}
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
