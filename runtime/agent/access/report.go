package access

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// maxMessage is the longest message of a condition, in bytes.
const maxMessage = 1000

// reportIssued hands over what the cluster has issued.
func (a *agent) reportIssued(ctx context.Context, c *v1alpha1.ClusterCredential, issued v1alpha1.IssuedAccess, reason string) error {
	until := issued.NotAfter.UTC().Format("2006-01-02T15:04:05Z")
	wrote, err := a.report(ctx, c, func(s *v1alpha1.ClusterCredentialStatus) {
		s.IssuedAccess = issued
		meta.RemoveStatusCondition(&s.Conditions, muster.ConditionFailed)
		a.set(s, muster.ConditionIssued, metav1.ConditionTrue, reason, "valid until "+until)
	})
	if err != nil || !wrote {
		return err
	}
	a.Log.Info("gave a user access", append(about(c), "reason", reason, "key", issued.KeyHash, "serial", issued.Serial, "until", until)...)
	a.event(ctx, c, corev1.EventTypeNormal, reason, fmt.Sprintf("%s, with the key %s until %s", sentence(c), issued.KeyHash, until))
	return nil
}

// reportFailed reports that nothing is issued, or that it was withdrawn.
func (a *agent) reportFailed(ctx context.Context, c *v1alpha1.ClusterCredential, s decide.Step, left v1alpha1.IssuedAccess) error {
	wrote, err := a.report(ctx, c, func(status *v1alpha1.ClusterCredentialStatus) {
		status.IssuedAccess = left
		a.set(status, muster.ConditionIssued, metav1.ConditionFalse, s.Reason, s.Message)
		a.set(status, muster.ConditionFailed, metav1.ConditionTrue, s.Reason, s.Message)
	})
	if err != nil || !wrote {
		return err
	}
	a.Log.Warn("gave a user no access", append(about(c), "reason", s.Reason, "because", s.Message)...)
	a.event(ctx, c, corev1.EventTypeWarning, s.Reason, fmt.Sprintf("%s: refused: %s", sentence(c), s.Message))
	return nil
}

// reportWaiting reports what a credential waits for.
func (a *agent) reportWaiting(ctx context.Context, c *v1alpha1.ClusterCredential, reason, message string) error {
	_, err := a.report(ctx, c, func(s *v1alpha1.ClusterCredentialStatus) {
		a.set(s, muster.ConditionIssued, metav1.ConditionFalse, reason, message)
	})
	return err
}

// about are the attributes of log lines about a credential.
func about(c *v1alpha1.ClusterCredential) []any {
	return []any{"user", c.Spec.User, "requester", c.Spec.Requester, "namespace", c.Spec.Namespace,
		"request", c.Spec.AccessRequest.Namespace + "/" + c.Spec.AccessRequest.Name}
}

// sentence says what a credential is for.
func sentence(c *v1alpha1.ClusterCredential) string {
	return fmt.Sprintf("access to the namespace %s for the user %q of the hub %s, asked for by %q in the access request %s/%s",
		c.Spec.Namespace, c.Spec.User, c.Spec.HubID, c.Spec.Requester, c.Spec.AccessRequest.Namespace, c.Spec.AccessRequest.Name)
}

func (a *agent) set(s *v1alpha1.ClusterCredentialStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: shortened(message), LastTransitionTime: metav1.NewTime(a.Clock.Now()),
	})
}

// report writes the status of a credential when it changes. It fails when the object
// is another by now.
func (a *agent) report(ctx context.Context, c *v1alpha1.ClusterCredential, change func(*v1alpha1.ClusterCredentialStatus)) (wrote bool, err error) {
	now := c.DeepCopy()
	change(&now.Status)
	if equality.Semantic.DeepEqual(c.Status, now.Status) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(c.DeepCopy(), client.MergeFromWithOptimisticLock{})
	err = a.hub.Status().Patch(ctx, now, patch)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil // the hub wants it no more
	case err != nil:
		if apierrors.IsConflict(err) {
			a.writtenCredentials.Drop(client.ObjectKeyFromObject(c))
		}
		return false, fmt.Errorf("report on the credential %s to the hub: %w", c.Name, err)
	}
	a.writtenCredentials.Wrote(c, now)
	return true, nil
}

// event tells the cluster's owner, beside the policy, who was let in and who was not.
func (a *agent) event(ctx context.Context, c *v1alpha1.ClusterCredential, kind, reason, note string) {
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, GenerateName: muster.PolicyConfigMap + "-"},
		Regarding:  corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: a.Namespace, Name: muster.PolicyConfigMap},
		EventTime:  metav1.NewMicroTime(a.Clock.Now()), Type: kind, Reason: reason, Action: "UserAccess", Note: shortened(note),
		ReportingController: cluster.AgentReportingController, ReportingInstance: cluster.AgentReportingController + "-" + a.ClusterName,
	}
	if err := a.local.Create(ctx, event); err != nil {
		a.Log.Debug("cannot create an event in the managed cluster", "reason", reason, "credential", c.Name, "err", err)
	}
}

// shortened makes a text fit into conditions and events.
func shortened(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-3], "") + "..."
}
