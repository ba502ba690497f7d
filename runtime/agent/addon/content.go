package addon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// wanted is a credential as it has to be.
type wanted struct {
	registration.Registration
	// account is the UID of the service account, with the driver token.
	account types.UID
	// kubeconfig is that of the Secret; nil where there is none.
	kubeconfig []byte
	// void is the time until which the hub's certificates are of no use.
	void time.Time
}

// want says how the credential of a registration has to be.
func (o *Options) want(r registration.Registration, account types.UID) (wanted, error) {
	w := wanted{Registration: r, account: account, void: o.void}
	if !r.ForHub() {
		return w, nil
	}
	config := o.Endpoint.Kubeconfig()
	// A pod that mounts the Secret finds the credential beside the kubeconfig.
	if r.IsCertificate() {
		config.CertFile, config.KeyFile = cluster.TLSCertKey, cluster.TLSKeyKey
	} else {
		config.TokenFile = registration.TokenKey
	}
	var err error
	if w.kubeconfig, err = config.YAML(); err != nil {
		return w, fmt.Errorf("write the kubeconfig for the hub %s: %w", o.Endpoint.Server, err)
	}
	return w, nil
}

// identity distinguishes the credential from one that has to be asked for again.
func (w wanted) identity() string {
	return w.Identity() + string(w.account) + string(w.kubeconfig)
}

// credential is what the hub has issued.
type credential struct {
	certPEM, keyPEM, token []byte
}

// data is the content of the Secret.
func (w wanted) data(c credential) map[string][]byte {
	data := map[string][]byte{cluster.ClusterNameKey: []byte(w.Cluster)}
	if w.kubeconfig != nil {
		data[cluster.KubeconfigKey] = w.kubeconfig
	}
	if w.IsCertificate() {
		data[cluster.TLSCertKey], data[cluster.TLSKeyKey] = c.certPEM, c.keyPEM
	} else {
		data[registration.TokenKey] = c.token
	}
	return data
}

// keys are the keys of Secrets of add-ons, whatever they were made with.
func keys() []string {
	return []string{
		cluster.ClusterNameKey, cluster.KubeconfigKey, cluster.TLSCertKey, cluster.TLSKeyKey, registration.TokenKey,
	}
}

// standing is how a stored credential is.
type standing struct {
	// err is why it can't be used, or is not what is wanted; nil for a good one.
	err error
	// since says which of several credentials is the newest, and renewAt when to get
	// the next one. condition is what to report. All are zero when err is not nil.
	since, renewAt time.Time
	condition      metav1.Condition
}

// inspect describes the credential in a Secret, nil for none. chance, from 0 to 1,
// spreads the renewals.
func (w wanted) inspect(secret *corev1.Secret, now time.Time, chance float64) standing {
	if secret == nil {
		return standing{err: errors.New("there is no Secret")}
	}
	if asked, ok := secret.Annotations[muster.AddOnRegistrationAnnotation]; ok && asked != w.Identity() {
		return standing{err: errors.New("another registration is wanted")}
	}
	switch {
	case string(secret.Data[cluster.ClusterNameKey]) != w.Cluster:
		return standing{err: errors.New("it is of another cluster")}
	case !bytes.Equal(secret.Data[cluster.KubeconfigKey], w.kubeconfig):
		return standing{err: errors.New("the hub's kubeconfig is another one")}
	}
	if !w.IsCertificate() {
		return w.inspectToken(secret.Data[registration.TokenKey], now)
	}
	_, asked := secret.Annotations[muster.AddOnRegistrationAnnotation]
	have := w.inspectCertificate(secret.Data[cluster.TLSCertKey], secret.Data[cluster.TLSKeyKey], !asked, now, chance)
	if have.err == nil && w.ForHub() && !w.void.IsZero() && !cluster.IssuedAt(have.since).After(w.void) {
		return standing{err: errors.New("it is of the cluster's former agent, and void since this one has taken " +
			"its place")}
	}
	return have
}

func (w wanted) inspectToken(content []byte, now time.Time) standing {
	t, err := registration.ParseToken(content)
	if err == nil {
		err = t.Check(w.account, now)
	}
	if err != nil {
		return standing{err: err}
	}
	return standing{since: t.IssuedAt, renewAt: t.RefreshAt(), condition: registration.Refreshed(t.Expires)}
}

// inspectCertificate looks at the subject where asked for. A signer of an add-on may
// have given another one.
func (w wanted) inspectCertificate(certPEM, keyPEM []byte, subject bool, now time.Time, chance float64) standing {
	leaf, err := parsePair(certPEM, keyPEM)
	if err == nil && subject && !hasSubject(leaf, w.Registration) {
		err = errors.New("its subject is another one")
	}
	if err == nil && !now.Before(leaf.NotAfter) {
		err = fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return standing{err: err}
	}
	return standing{
		since: leaf.NotBefore, renewAt: certificate.RenewAt(leaf.NotBefore, leaf.NotAfter, chance),
		condition: registration.Rotated(leaf.NotBefore, leaf.NotAfter),
	}
}

// parsePair is the first certificate of a pair. Errors don't hold the key.
func parsePair(certPEM, keyPEM []byte) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate and key are no pair: %w", err)
	}
	if pair.Leaf != nil {
		return pair.Leaf, nil
	}
	return x509.ParseCertificate(pair.Certificate[0])
}

func hasSubject(c *x509.Certificate, r registration.Registration) bool {
	return c.Subject.CommonName == r.User && sameSet(c.Subject.Organization, r.Groups) &&
		sameSet(c.Subject.OrganizationalUnit, r.OrganizationUnits)
}

func sameSet(a, b []string) bool {
	return sets.New(a...).Equal(sets.New(b...))
}

// isOurs reports whether a Secret is one that this agent has made for an add-on.
func (o *Options) isOurs(secret *corev1.Secret, addOn string) bool {
	return secret.Labels[muster.AddOnAgentLabel] == o.Namespace && secret.Annotations[muster.AddOnAnnotation] == addOn
}

// mayTakeOver reports whether a Secret that the agent has not made is a credential of
// the registration all the same, as one from before muster's agent came: nothing else
// looks like it. Such a one is replaced and gets the agent's mark; any other stays.
func (w wanted) mayTakeOver(secret *corev1.Secret) error {
	refused := fmt.Errorf("the Secret %s/%s is there, and is not the agent's: rename or delete it, "+
		"or give the add-on another install namespace",
		secret.Namespace, secret.Name)
	if by := secret.Labels[muster.AddOnAgentLabel]; by != "" {
		return fmt.Errorf("the Secret %s/%s was made for the add-on %q by the agent in the namespace %s: "+
			"give one of the two add-ons another install namespace",
			secret.Namespace, secret.Name, secret.Annotations[muster.AddOnAnnotation], by)
	}
	isOpaque := secret.Type == corev1.SecretTypeOpaque || secret.Type == ""
	if !isOpaque || string(secret.Data[cluster.ClusterNameKey]) != w.Cluster {
		return refused
	}
	for key := range secret.Data {
		if !slices.Contains(keys(), key) {
			return refused
		}
	}
	leaf, err := parsePair(secret.Data[cluster.TLSCertKey], secret.Data[cluster.TLSKeyKey])
	if err == nil && leaf.Subject.CommonName == w.User {
		return nil
	}
	config, err := clientcmd.Load(secret.Data[cluster.KubeconfigKey])
	if !w.ForHub() || err != nil || config.CurrentContext != identity.KubeconfigContext ||
		config.AuthInfos[identity.KubeconfigUser] == nil {
		return refused
	}
	return nil
}

// certificateOf checks what the hub has signed for a key.
func (w wanted) certificateOf(certPEM, keyPEM []byte, now time.Time) (credential, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return credential{}, errors.New("what was signed is not in PEM form")
	}
	if s := w.inspectCertificate(certPEM, keyPEM, w.ForHub(), now, 0); s.err != nil {
		return credential{}, fmt.Errorf("what was signed cannot be used: %w", s.err)
	}
	return credential{certPEM: certPEM, keyPEM: keyPEM}, nil
}
