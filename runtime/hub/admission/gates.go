package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// rolloutGates checks the gates of rollouts, and notes who approves.
type rolloutGates struct {
	writes
	*server
	clock clock.PassiveClock
}

// Admit keeps the approvals that the hub has noted, checks gates that are new, and makes an
// approval of a request for one. Both an approval and a change of gates need the right to
// approve.
func (p rolloutGates) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	var contentOf func(runtime.Object) (string, error)
	switch {
	case concerns(a, work.GroupName, "manifestworkreplicasets"):
		contentOf = contentOfSet
	case concerns(a, addon.GroupName, "clustermanagementaddons"):
		contentOf = contentOfAddOn
	default:
		return nil
	}
	now, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("expected a custom resource, got %T", a.GetObject())
	}
	var before map[string]string
	if old, ok := a.GetOldObject().(*unstructured.Unstructured); ok && old != nil {
		before = old.GetAnnotations()
	}
	annotations := now.GetAnnotations()
	keepApprovals(now, annotations, before)
	gates, err := rollout.ReadGates(annotations)
	switch {
	case err == nil:
	case same(annotations, before, muster.RolloutGatesAnnotation, muster.RolloutPausedAnnotation) && before != nil:
		return nil // it was stored before it was checked, and holds the rollout back
	default:
		return apierrors.NewBadRequest(err.Error())
	}
	changed := before[muster.RolloutGatesAnnotation] != "" && !same(annotations, before, muster.RolloutGatesAnnotation)
	request, asked := annotations[muster.ApproveRolloutAnnotation]
	if !changed && !asked {
		return nil
	}
	if !p.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{Verb: muster.VerbApprove, Namespace: a.GetNamespace(),
		Name: now.GetName(), APIGroup: a.GetResource().Group, Resource: a.GetResource().Resource}) {
		what := "approve groups of its rollout"
		if !asked {
			what = "change the gates of its rollout (" + muster.RolloutGatesAnnotation + ")"
		}
		return forbidden(a, "user %q may not %s: it needs the verb %s on %s.%s", a.GetUserInfo().GetName(), what,
			muster.VerbApprove, a.GetResource().Resource, a.GetResource().Group)
	}
	if !asked {
		return nil
	}
	group, digest, _ := strings.Cut(request, "@")
	if !gates.Has(group) && group != rollout.EveryGroup {
		return apierrors.NewBadRequest(
			fmt.Sprintf("the annotation %s approves the group %q, before which there is no gate "+
				"to approve: name a group of %s", muster.ApproveRolloutAnnotation, group,
				muster.RolloutGatesAnnotation),
		)
	}
	content, err := contentOf(now)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the %s cannot be read: %v", a.GetKind().Kind, err))
	}
	if digest != "" && digest != content {
		return apierrors.NewConflict(
			a.GetResource().GroupResource(),
			now.GetName(),
			fmt.Errorf("what it rolls out has "+
				"changed since you have looked at it: look again, and approve that"),
		)
	}
	annotations[muster.RolloutApprovalsAnnotation] = gates.Approve(rollout.Approval{Group: group, Content: content,
		By: a.GetUserInfo().GetName(), At: p.clock.Now().UTC().Truncate(time.Second)})
	delete(annotations, muster.ApproveRolloutAnnotation)
	now.SetAnnotations(annotations)
	return nil
}

// keepApprovals keeps the approvals as they were: nobody but the hub writes them.
func keepApprovals(now *unstructured.Unstructured, annotations, before map[string]string) {
	const key = muster.RolloutApprovalsAnnotation
	if same(annotations, before, key) {
		return
	}
	if was, had := before[key]; had {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = was
	} else {
		delete(annotations, key)
	}
	now.SetAnnotations(annotations)
}

// same reports whether annotations are the same in two objects.
func same(a, b map[string]string, keys ...string) bool {
	for _, key := range keys {
		x, hasX := a[key]
		y, hasY := b[key]
		if x != y || hasX != hasY {
			return false
		}
	}
	return true
}

func contentOfSet(o runtime.Object) (string, error) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	err := decode(o, set)
	return override.Content(set), err
}

// contentOfAddOn is of what both versions of the API have.
func contentOfAddOn(o runtime.Object) (string, error) {
	var a struct {
		Status struct {
			InstallProgressions []addonv1alpha1.InstallProgression `json:"installProgressions"`
		} `json:"status"`
	}
	err := decode(o, &a)
	return configs.Content(a.Status.InstallProgressions), err
}
