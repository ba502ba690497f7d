// Package registration is what hub and agent have to agree about when an add-on's
// agent gets its credentials: who the agent is on the hub, which Secret holds what,
// how certificate requests look and which of them the hub approves, when a credential
// is renewed, and the texts of conditions.
//
// It decides and asks nobody: no client, no clock, no state. Hub and agent import it,
// and it imports neither.
package registration

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Drivers by which an agent gets credentials for the hub's API.
const (
	// DriverCSR is by client certificates. It is what no driver means.
	DriverCSR = "csr"
	// DriverToken is by tokens of a service account on the hub.
	DriverToken = "token"
)

// Registration is one credential that an add-on's agent in a cluster is to have, with
// all defaults filled in.
type Registration struct {
	Cluster, AddOn string
	Type           addonv1beta1.RegistrationType
	// Driver is DriverCSR or DriverToken, and "" for custom signers.
	Driver string
	// Signer is who signs the certificate, and "" with DriverToken.
	Signer string
	// User, Groups and OrganizationUnits are the subject.
	User                      string
	Groups, OrganizationUnits []string
	// Namespace in the managed cluster.
	Namespace string
	// Hosted says that the add-on's agent runs in another cluster than its own.
	Hosted bool
}

// Of returns the registrations of an add-on that can be carried out, and what is wrong
// with the others. Of several with the same Secret, the first one counts.
func Of(a *addonv1beta1.ManagedClusterAddOn) ([]Registration, error) {
	var all []Registration
	var problems []error
	for i := range a.Status.Registrations {
		r, err := of(a, &a.Status.Registrations[i])
		if err == nil && slices.ContainsFunc(all, func(other Registration) bool { return other.Secret() == r.Secret() }) {
			err = fmt.Errorf("its Secret %s is that of an earlier one", r.Secret())
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("status.registrations[%d] is left out: %w", i, err))
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(problems...)
}

func of(a *addonv1beta1.ManagedClusterAddOn, c *addonv1beta1.RegistrationConfig) (Registration, error) {
	r := Registration{
		Cluster: a.Namespace, AddOn: a.Name, Type: c.Type,
		Namespace: InstallNamespace(a), Hosted: HostingCluster(a) != "",
	}
	switch {
	case c.Type == addonv1beta1.RegistrationTypeKubeClient && c.KubeClient == nil:
		return r, errors.New("its type is kubeClient and kubeClient is missing")
	case c.Type == addonv1beta1.RegistrationTypeKubeClient && c.KubeClient.Driver == DriverToken:
		r.Driver, r.User = DriverToken, ServiceAccountUser(a.Namespace, a.Name)
	case c.Type == addonv1beta1.RegistrationTypeKubeClient:
		s := c.KubeClient.Subject
		r.Driver, r.Signer, r.User, r.Groups = DriverCSR, addon.KubeClientSigner, s.User, slices.Clone(s.Groups)
		if r.User == "" || r.User == ServiceAccountUser(a.Namespace, a.Name) {
			// The latter is what the driver token leaves behind.
			r.User = User(a.Namespace, a.Name, a.Name)
		}
		if len(r.Groups) == 0 {
			r.Groups = Groups(a.Namespace, a.Name)
		}
	case c.Type == addonv1beta1.RegistrationTypeCustomSigner && (c.CustomSigner == nil || c.CustomSigner.SignerName == ""):
		return r, errors.New("its type is customSigner and customSigner.signerName is missing")
	case c.Type == addonv1beta1.RegistrationTypeCustomSigner && c.CustomSigner.SignerName == addon.KubeClientSigner:
		return r, fmt.Errorf("its type is customSigner and its signer is %s, which the type kubeClient is for", addon.KubeClientSigner)
	case c.Type == addonv1beta1.RegistrationTypeCustomSigner:
		s := c.CustomSigner.Subject
		r.Signer, r.User = c.CustomSigner.SignerName, s.User
		r.Groups, r.OrganizationUnits = slices.Clone(s.Groups), slices.Clone(s.OrganizationUnits)
		if r.User == "" {
			r.User = User(a.Namespace, a.Name, a.Name)
		}
	default:
		return r, fmt.Errorf("its type %q is unknown", c.Type)
	}
	return r, nil
}

// SetDriver writes a driver into the first registration for the hub's API, with the
// subject that follows from it, and reports whether that changed anything. There is
// one driver for all of an add-on's registrations.
func SetDriver(a *addonv1beta1.ManagedClusterAddOn, driver string) (changed bool) {
	i := slices.IndexFunc(a.Status.Registrations, func(c addonv1beta1.RegistrationConfig) bool {
		return c.Type == addonv1beta1.RegistrationTypeKubeClient
	})
	if i < 0 {
		return false
	}
	c := &a.Status.Registrations[i]
	if c.KubeClient == nil {
		c.KubeClient, changed = &addonv1beta1.KubeClientConfig{}, true
	}
	if c.KubeClient.Driver != driver {
		c.KubeClient.Driver, changed = driver, true
	}
	subject, account := &c.KubeClient.Subject, ServiceAccountUser(a.Namespace, a.Name)
	switch {
	case driver == DriverToken && (subject.User != account || len(subject.Groups) > 0):
		*subject, changed = addonv1beta1.KubeClientSubject{User: account}, true
	case driver != DriverToken && subject.User == account:
		*subject, changed = addonv1beta1.KubeClientSubject{}, true // so that the hub fills it in
	}
	return changed
}

// Secret is the name of the Secret with the credential.
func (r Registration) Secret() string {
	if r.Type == addonv1beta1.RegistrationTypeKubeClient {
		return KubeClientSecret(r.AddOn)
	}
	return CustomSignerSecret(r.AddOn, r.Signer)
}

// Identity distinguishes a registration from one that needs another credential.
func (r Registration) Identity() string {
	parts := []string{
		r.Cluster, r.AddOn, string(r.Type), r.Driver, r.Signer, r.User,
		r.Namespace, strconv.FormatBool(r.Hosted), strconv.Itoa(len(r.Groups)), strconv.Itoa(len(r.OrganizationUnits)),
	}
	// The order of groups makes no difference to anybody.
	parts = append(parts, slices.Sorted(slices.Values(r.Groups))...)
	return digest(append(parts, slices.Sorted(slices.Values(r.OrganizationUnits))...)...)
}

// IsCertificate distinguishes certificates from tokens.
func (r Registration) IsCertificate() bool { return r.Driver != DriverToken }

// ForHub reports whether the credential is for the hub's API, and has a kubeconfig.
func (r Registration) ForHub() bool { return r.Type == addonv1beta1.RegistrationTypeKubeClient }

// TokenKey is the key of a Secret that holds the token of a service account on the
// hub. The other keys are those of the Secret of the cluster's own agent:
// cluster.KubeconfigKey, cluster.ClusterNameKey, cluster.TLSCertKey and
// cluster.TLSKeyKey.
const TokenKey = "token"

// User is the name on the hub of an agent of an add-on in a cluster.
func User(clusterName, addOn, agent string) string {
	return ClusterAddOnGroup(clusterName, addOn) + ":agent:" + agent
}

// TemplateAgent is the agent's name of add-ons from templates, as in User.
func TemplateAgent(addOn string) string { return addOn + "-agent" }

// ClusterAddOnGroup is the group of an add-on's agents in one cluster.
func ClusterAddOnGroup(clusterName, addOn string) string {
	return cluster.ClusterAddOnGroup(clusterName, addOn)
}

// AddOnGroup is the group of an add-on's agents in all clusters.
func AddOnGroup(addOn string) string { return cluster.AddOnGroup(addOn) }

// Groups are the groups of an add-on's agents in one cluster.
func Groups(clusterName, addOn string) []string {
	return []string{ClusterAddOnGroup(clusterName, addOn), AddOnGroup(addOn)}
}

// ServiceAccount is the service account, in the cluster's namespace on the hub, whose
// tokens the agent of an add-on gets with the driver DriverToken.
func ServiceAccount(addOn string) string { return addOn + "-agent" }

// TokenRole is the Role, and the RoleBinding, by which the cluster's agent may ask for
// these tokens.
func TokenRole(addOn string) string { return addOn + "-token-role" }

// ServiceAccountUser is the user name of that service account.
func ServiceAccountUser(clusterName, addOn string) string {
	return "system:serviceaccount:" + clusterName + ":" + ServiceAccount(addOn)
}

// KubeClientSecret is the Secret, in the managed cluster, with an add-on's credentials
// for the hub's API.
func KubeClientSecret(addOn string) string { return addOn + "-hub-kubeconfig" }

// CustomSignerSecret is the Secret with an add-on's certificate of a signer.
func CustomSignerSecret(addOn, signer string) string {
	return addOn + "-" + strings.ReplaceAll(signer, "/", "-") + "-client-cert"
}

// RequestPrefix begins the names of an add-on's certificate requests. It is their
// generateName.
func RequestPrefix(clusterName, addOn string) string {
	return "addon-" + clusterName + "-" + addOn + "-"
}

// RequestLabels are on an add-on's certificate requests.
func RequestLabels(clusterName, addOn string) map[string]string {
	return map[string]string{cluster.NameLabel: clusterName, cluster.AddOnNameLabel: addOn}
}

// DNSName is in an add-on's certificates.
func DNSName(addOn string) string { return addOn + ".addon.open-cluster-management.io" }

// InstallNamespace is the namespace of the managed cluster that an add-on's agent and
// its credentials are in.
func InstallNamespace(a *addonv1beta1.ManagedClusterAddOn) string {
	return cmp.Or(a.Status.Namespace, a.Annotations[addon.InstallNamespaceAnnotation], addon.DefaultInstallNamespace)
}

// HostingCluster is the cluster that an add-on's agent runs in, when it is not the
// add-on's own, and "" otherwise.
func HostingCluster(a *addonv1beta1.ManagedClusterAddOn) string {
	return a.Annotations[addon.HostingClusterAnnotation]
}

// digest is a name for what parts say. Their borders count.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		_, _ = sum.Write([]byte(p))
		_, _ = sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ConditionTokenRefreshed says how the last request for a token went. Of certificates,
// cluster.ConditionCertificateRotated says it.
const ConditionTokenRefreshed = "TokenRefreshed"

// ConditionRegistrationApplied says that the hub has looked at what an add-on's agent
// needs on the hub, and has given it.
const ConditionRegistrationApplied = "RegistrationApplied"

// Reasons of ConditionRegistrationApplied, and their messages.
const (
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
