package manifestwork

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// How long the agent may fail to apply the same manifests with the same errors
// until a wait for their work ends.
const (
	// definitePatience is for what no retry can change, such as a field that the
	// server refuses. Agents retry several times within it.
	definitePatience = 3 * time.Second
	// failurePatience is for what somebody may put right meanwhile.
	failurePatience = 30 * time.Second
)

// failedError is why a work is not going to be applied: what the agent reports.
type failedError struct {
	text string
	// after is how long it has reported that.
	after time.Duration
}

func (e failedError) Error() string { return e.text }

// isFailure tells whether a wait ended because the work can't be applied.
func isFailure(err error) bool {
	var failed failedError
	return errors.As(err, &failed)
}

// waitForWork waits until these conditions of a work are met. It ends early, with
// a failedError, when the agent has reported the same failure for as long as
// patience allows for it.
func waitForWork(ctx context.Context, client *kube.Client, object *workv1.ManifestWork, wanted []attribute.WaitCondition, patience func(severity) time.Duration) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var seen string
	var timer *time.Timer
	stop := func() {
		if timer != nil {
			timer.Stop()
		}
	}
	defer func() { stop() }()
	err := client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, errors.New("it does not exist")
		}
		if text, severity := failure(object); text != seen {
			stop()
			seen, timer = text, nil
			if severity != passing {
				after := patience(severity)
				timer = time.AfterFunc(after, func() { fail(failedError{text, after}) })
			}
		}
		return workIs(object, wanted), nil
	})
	if cause := context.Cause(ctx); err != nil && isFailure(cause) {
		return cause
	}
	return err
}

// patience is how long a failure is waited out.
func patience(s severity) time.Duration {
	if s == definite {
		return definitePatience
	}
	return failurePatience
}

// failure is what the agent says of the manifests that it can't apply, one in a
// line, and how bad that is; empty when there are none, or when it has yet to look
// at the present generation.
func failure(object *workv1.ManifestWork) (string, severity) {
	if isFinished(object) {
		return finished, definite
	}
	worst := passing
	var lines []string
	for _, m := range failing(object) {
		lines = append(lines, workload.Places(nil).Name(m.meta)+": "+m.message)
		switch s := severityOf(m.message); {
		case s == definite:
			worst = definite
		case worst != definite && (len(lines) == 1 || s == passing):
			worst = s // What may pass may also be the cause of the rest.
		}
	}
	return strings.Join(lines, "\n"), worst
}

const finished = "The work is Complete: as long as a condition rule says so, the agent applies no change of it. To have the objects applied, create a work of another name, " +
	"replace this one (terraform apply -replace), or remove the rule for Complete."

// isFinished reports whether a work was Complete before its last change, and stays
// so.
func isFinished(object *workv1.ManifestWork) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, work.ConditionComplete)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration != 0 && c.ObservedGeneration < object.Generation && canComplete(object.Spec.ManifestConfigs)
}

func canComplete(options []workv1.ManifestConfigOption) bool {
	return slices.ContainsFunc(options, func(o workv1.ManifestConfigOption) bool {
		return slices.ContainsFunc(o.ConditionRules, func(r workv1.ConditionRule) bool { return r.Condition == work.ConditionComplete })
	})
}

// refused is what the agent says of one manifest that it can't apply.
type refused struct {
	meta    workv1.ManifestResourceMeta
	message string
}

// failing are the manifests of a work's present generation that the agent can't
// apply.
func failing(object *workv1.ManifestWork) []refused {
	applied := meta.FindStatusCondition(object.Status.Conditions, work.ConditionApplied)
	if applied == nil || applied.Status != metav1.ConditionFalse || applied.ObservedGeneration != 0 && applied.ObservedGeneration < object.Generation {
		return nil
	}
	var list []refused
	for _, m := range object.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied)
		if c != nil && c.Status == metav1.ConditionFalse {
			list = append(list, refused{m.ResourceMeta, c.Message})
		}
	}
	return list
}

// warnOfFailure tells at a refresh what the agent could not apply. It says nothing
// of a work that the agent has yet to look at.
func (m *manifestWorkModel) warnOfFailure(object *workv1.ManifestWork, diags *diag.Diagnostics) {
	m.warnOfContest(object, diags)
	list := failing(object)
	if len(list) == 0 {
		return
	}
	places := m.Places()
	lines := []string{"The agent of the cluster can't apply all objects of the work:"}
	for i, r := range list {
		if i == shownFailures {
			lines = append(lines, fmt.Sprintf("  and %d more", len(list)-shownFailures))
			break
		}
		lines = append(lines, "  "+places.Name(r.meta)+": "+r.message)
	}
	for _, r := range list {
		lines = append(lines, remedies(r.message)...)
	}
	lines = append(slices.Compact(lines), "", "It keeps trying. Correct the objects and apply, or look at what stands in their way:",
		fmt.Sprintf("  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name))
	diags.AddWarning("Not applied: "+m.What(), attribute.JoinLines(lines))
}

// warnOfContest tells at a refresh which objects others keep changing back.
func (m *manifestWorkModel) warnOfContest(object *workv1.ManifestWork, diags *diag.Diagnostics) {
	places := m.Places()
	var lines []string
	for _, reported := range object.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(reported.Conditions, work.ConditionContested); c != nil && c.Status == metav1.ConditionTrue {
			lines = append(lines, "  "+places.Name(reported.ResourceMeta)+": "+c.Message)
		}
	}
	if len(lines) == 0 {
		return
	}
	if more := len(lines) - shownFailures; more > 0 {
		lines = append(lines[:shownFailures], fmt.Sprintf("  and %d more", more))
	}
	diags.AddWarning("Contested: objects of "+m.What(), "The agent of the cluster reports:\n"+attribute.JoinLines(lines)+
		fmt.Sprintf("\n\nThe objects do not stay as the work has them. Look at who else writes them:\n  kubectl get manifestworks -n %s    # on the hub\n"+
			"  kubectl get KIND NAME -o yaml --show-managed-fields    # in the cluster", object.Namespace))
}

// shownFailures is how many failing objects a warning lists.
const shownFailures = 10
