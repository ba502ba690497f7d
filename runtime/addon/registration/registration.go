package registration

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
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
