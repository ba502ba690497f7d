package addon

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// What the reports of a hub about an add-on mean. Its conditions note no generation, so
// that a report is about the present when it names the configurations of the
// specification, with the hashes that these have.

// progressing is the condition Progressing of a placement; empty without one.
func progressing(p v1alpha1.InstallProgression) metav1.Condition {
	if c := meta.FindStatusCondition(p.Conditions, addon.ConditionProgressing); c != nil {
		return *c
	}
	return metav1.Condition{}
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
