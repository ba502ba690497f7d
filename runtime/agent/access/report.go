package access

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// reportIssued hands over what the cluster has issued.
func (a *agent) reportIssued(ctx context.Context, v *decide.View, issued v1alpha1.IssuedAccess, reason string) error {
	until := issued.NotAfter.UTC().Format("2006-01-02T15:04:05Z")
	wrote, err := a.report(ctx, v, func(s *v1alpha1.ClusterCredentialStatus) {
		s.IssuedAccess = issued
		meta.RemoveStatusCondition(&s.Conditions, muster.ConditionFailed)
		a.set(s, muster.ConditionIssued, metav1.ConditionTrue, reason, "valid until "+until)
	})
	if err != nil || !wrote {
		return err
	}
	c := v.Credential
	a.Log.Info("gave a user access", append(about(c),
		"reason", reason, "key", issued.KeyHash, "serial", issued.Serial, "until", until)...)
	a.event(ctx, c, corev1.EventTypeNormal, reason,
		fmt.Sprintf("%s, with the key %s until %s", sentence(c), issued.KeyHash, until))
	return nil
}

// reportFailed reports that nothing is issued, or that it was withdrawn.
func (a *agent) reportFailed(ctx context.Context, v *decide.View, s decide.Step, left v1alpha1.IssuedAccess) error {
	wrote, err := a.report(ctx, v, func(status *v1alpha1.ClusterCredentialStatus) {
		status.IssuedAccess = left
		a.set(status, muster.ConditionIssued, metav1.ConditionFalse, s.Reason, s.Message)
		a.set(status, muster.ConditionFailed, metav1.ConditionTrue, s.Reason, s.Message)
	})
	if err != nil || !wrote {
		return err
	}
	c := v.Credential
	a.Log.Warn("gave a user no access", append(about(c), "reason", s.Reason, "because", s.Message)...)
	a.event(ctx, c, corev1.EventTypeWarning, s.Reason, fmt.Sprintf("%s: refused: %s", sentence(c), s.Message))
	return nil
}

// reportWaiting reports what a credential waits for.
func (a *agent) reportWaiting(ctx context.Context, v *decide.View, reason, message string) error {
	_, err := a.report(ctx, v, func(s *v1alpha1.ClusterCredentialStatus) {
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
	s := c.Spec
	return fmt.Sprintf("access to the namespace %s for the user %q of the hub %s, "+
		"asked for by %q in the access request %s/%s",
		s.Namespace, s.User, s.HubID, s.Requester, s.AccessRequest.Namespace, s.AccessRequest.Name)
}

func (a *agent) set(
	s *v1alpha1.ClusterCredentialStatus, kind string, status metav1.ConditionStatus, reason, message string,
) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text.Cut(message, limits.AccessMessage),
		LastTransitionTime: metav1.NewTime(a.Clock.Now()),
	})
}

// report writes the status of a credential when it changes. It fails when the object
// is another by now.
func (a *agent) report(
	ctx context.Context, v *decide.View, change func(*v1alpha1.ClusterCredentialStatus),
) (wrote bool, err error) {
	c := v.Credential.DeepCopy()
	wrote, err = patch.Status(ctx, a.hub, c, func() bool {
		change(&c.Status)
		return !equality.Semantic.DeepEqual(v.Credential.Status, c.Status)
	})
	if err != nil {
		return false, fmt.Errorf("report on the credential %s to the hub: %w", c.Name, err)
	}
	if wrote {
		a.writtenCredentials.Wrote(c)
		v.Credential = c
	}
	return wrote, nil
}

// event leaves an event for the cluster's owner, beside the policy, of who was given
// access and who was not.
func (a *agent) event(ctx context.Context, c *v1alpha1.ClusterCredential, kind, reason, note string) {
	source := event.Source{
		Controller: cluster.AgentReportingController,
		Instance:   cluster.AgentReportingController + "-" + a.ClusterName,
		Clock:      a.Clock,
	}
	policy := corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: a.Namespace, Name: muster.PolicyConfigMap,
	}
	e := source.New(policy, event.What{Type: kind, Reason: reason, Action: "UserAccess", Note: note})
	e.GenerateName = muster.PolicyConfigMap + "-"
	if err := a.local.Create(ctx, e); err != nil {
		a.Log.Debug("cannot create an event in the managed cluster", "reason", reason, "credential", c.Name, "err", err)
	}
}
