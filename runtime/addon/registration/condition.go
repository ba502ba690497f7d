package registration

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// ConditionTokenRefreshed says how the last request for a token went. Of certificates,
// cluster.ConditionCertificateRotated says it.
const ConditionTokenRefreshed = "TokenRefreshed"

// ConditionRegistrationApplied says that the hub has looked at what an add-on's agent
// needs on the hub, and has given it.
const ConditionRegistrationApplied = "RegistrationApplied"

// Reasons of ConditionRegistrationApplied, and their messages.
const (
	ReasonNilRegistration         = "NilRegistration"
	ReasonSetPermissionApplied    = "SetPermissionApplied"
	ReasonSetPermissionFailed     = "SetPermissionFailed"
	ReasonPermissionConfigPending = "PermissionConfigPending"

	// MessageRegistrationApplied is of the first two.
	MessageRegistrationApplied     = "Registration of the addon agent is configured"
	MessagePermissionConfigPending = "registration subject not ready"
	// MessageClusterNotAccepted follows MessageRegistrationApplied.
	MessageClusterNotAccepted = "the managed cluster is not accepted, and until then the agent has no rights on the hub"
	// FormatSetPermissionFailed takes the error.
	FormatSetPermissionFailed = "Failed to set permission for hub agent: %v"
)

// Reasons of ConditionTokenRefreshed.
const (
	ReasonTokenRefreshed      = "AddonTokenRefreshed"
	ReasonTokenCreationFailed = "TokenCreationFailed"
)

// Reasons of addon.ConditionAvailable that follow from an add-on's lease, beside
// addon.ReasonLeaseUpdateStopped.
const (
	ReasonLeaseUpdated  = "ManagedClusterAddOnLeaseUpdated"
	ReasonLeaseNotFound = "ManagedClusterAddOnLeaseNotFound"
)

// LeaseGrace is how long after its last renewal an add-on's lease counts.
const LeaseGrace = 5 * 60 * time.Second

// Rotated is the condition of a certificate that was issued.
func Rotated(notBefore, notAfter time.Time) metav1.Condition {
	return metav1.Condition{
		Type: cluster.ConditionCertificateRotated, Status: metav1.ConditionTrue, Reason: cluster.ReasonClientCertificateUpdated,
		Message: fmt.Sprintf(cluster.FormatClientCertificateUpdated, notBefore, notAfter),
	}
}

// Refreshed is the condition of a token that was issued.
func Refreshed(expires time.Time) metav1.Condition {
	return metav1.Condition{
		Type: ConditionTokenRefreshed, Status: metav1.ConditionTrue, Reason: ReasonTokenRefreshed,
		Message: "Addon token refreshed, expires at " + expires.UTC().Format(time.RFC3339),
	}
}

// Failed is the condition of a registration without a credential, or without the
// next one. message is one of the messages of package cluster, or of TokenFailed.
func (r Registration) Failed(message string) metav1.Condition {
	c := metav1.Condition{
		Type: r.ConditionType(), Status: metav1.ConditionFalse, Reason: cluster.ReasonClientCertificateUpdateFailed, Message: message,
	}
	if !r.IsCertificate() {
		c.Reason = ReasonTokenCreationFailed
	}
	return c
}

// ConditionType is the type of the condition about a registration.
func (r Registration) ConditionType() string {
	if r.IsCertificate() {
		return cluster.ConditionCertificateRotated
	}
	return ConditionTokenRefreshed
}

// FailedBy is the condition of a registration whose credential could not be had.
// creating says that a certificate was not even asked for.
func (r Registration) FailedBy(err error, creating bool) metav1.Condition {
	switch {
	case !r.IsCertificate():
		return r.Failed(fmt.Sprintf("Failed to create token: %v", err))
	case creating:
		return r.Failed(fmt.Sprintf(cluster.FormatCreateRequestFailed, err))
	}
	return r.Failed(fmt.Sprintf(cluster.FormatClientCertificateUpdateFailed, err))
}

// Available is the condition that follows from an add-on's lease, which may be nil, and
// when it may be another one though the lease stays as it is; the zero time is never.
// hosting is the cluster that the add-on's agent runs in when it is not its own.
func Available(addOn, hosting string, lease *coordinationv1.Lease, now time.Time) (c metav1.Condition, until time.Time) {
	c = metav1.Condition{Type: addon.ConditionAvailable}
	if lease == nil {
		c.Status, c.Reason = metav1.ConditionUnknown, ReasonLeaseNotFound
		c.Message = fmt.Sprintf("The status of %s add-on is unknown.", addOn)
		if hosting != "" {
			c.Message += fmt.Sprintf(" No lease found on hosting cluster %q; verify it matches the cluster where this managed cluster's klusterlet actually runs.", hosting)
		}
		return c, time.Time{}
	}
	if lease.Spec.RenewTime != nil {
		if until = lease.Spec.RenewTime.Add(LeaseGrace); now.Before(until) {
			c.Status, c.Reason = metav1.ConditionTrue, ReasonLeaseUpdated
			c.Message = fmt.Sprintf("%s add-on is available.", addOn)
			return c, until
		}
	}
	c.Status, c.Reason = metav1.ConditionFalse, addon.ReasonLeaseUpdateStopped
	c.Message = fmt.Sprintf("%s add-on is not available.", addOn)
	return c, time.Time{}
}
