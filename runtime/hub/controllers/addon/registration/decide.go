package registration

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
)

// registrations are the credentials that a template asks for, for its agent in the
// cluster of a ManagedClusterAddOn. Those that can't be had are left out, and the
// error says why.
func registrations(t *v1alpha1.AddOnTemplate, a *v1alpha1.ManagedClusterAddOn) (out []v1alpha1.RegistrationConfig, problem error) {
	agent := v1alpha1.Subject{
		User:   wire.User(a.Namespace, a.Name, wire.TemplateAgent(a.Name)),
		Groups: wire.Groups(a.Namespace, a.Name),
	}
	for i, r := range t.Spec.Registration {
		switch {
		case r.Type == v1alpha1.RegistrationTypeKubeClient && a.Status.KubeClientDriver == wire.DriverToken:
			// What the agent writes with this driver.
			account := v1alpha1.Subject{User: wire.ServiceAccountUser(a.Namespace, a.Name)}
			out = append(out, v1alpha1.RegistrationConfig{SignerName: addon.KubeClientSigner, Subject: account})
		case r.Type == v1alpha1.RegistrationTypeKubeClient:
			out = append(out, v1alpha1.RegistrationConfig{SignerName: addon.KubeClientSigner, Subject: *agent.DeepCopy()})
		case r.CustomSigner == nil:
			// As upstream: there is nothing to ask for.
		case wire.ReservedSigner(r.CustomSigner.SignerName):
			problem = fmt.Errorf("spec.registration[%d].customSigner.signerName of the AddOnTemplate %s is %q, which is a signer of Kubernetes' own: use a domain of yours, or the type KubeClient for access to the hub",
				i, t.Name, r.CustomSigner.SignerName)
		default:
			subject := *agent.DeepCopy()
			if s := r.CustomSigner.Subject; s != nil {
				subject = *s.DeepCopy()
			}
			out = append(out, v1alpha1.RegistrationConfig{SignerName: r.CustomSigner.SignerName, Subject: subject})
		}
	}
	return out, problem
}

// applied is the condition of an add-on whose agent has got its rights on the hub, or
// could not get them.
func applied(problem error) metav1.Condition {
	c := metav1.Condition{
		Type: wire.ConditionRegistrationApplied, Status: metav1.ConditionTrue,
		Reason: wire.ReasonSetPermissionApplied, Message: wire.MessageRegistrationApplied,
	}
	switch {
	case problem == nil:
	case errors.Is(problem, errPending):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, wire.ReasonPermissionConfigPending, wire.MessagePermissionConfigPending
	default:
		c.Status, c.Reason = metav1.ConditionFalse, wire.ReasonSetPermissionFailed
		c.Message = text.Cut(fmt.Sprintf(wire.FormatSetPermissionFailed, problem), limits.ConditionMessage)
	}
	return c
}

// ownedByDefinition reports whether a ManagedClusterAddOn belongs to its
// ClusterManagementAddOn. As upstream, what group the owner is of is not looked at.
func ownedByDefinition(a *v1alpha1.ManagedClusterAddOn) bool {
	return slices.ContainsFunc(a.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "ClusterManagementAddOn" && o.Name == a.Name
	})
}
