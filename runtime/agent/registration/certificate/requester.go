// Package certificate gets an agent its certificate from the hub, and says when
// to renew it. It reads and creates CertificateSigningRequests; storing the
// certificate is up to the caller.
//
// The Manager of k8s.io/client-go/util/certificate, which kubelets use, gives a
// request up after 15 minutes and makes another one. A cluster may wait for days
// until the hub's people accept it, and each new request counts against the
// limit on requests per agent. The Manager also follows the real clock only, and
// has no way to continue a request with another client.
package certificate

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// ErrCreate marks failures to create the request, as opposed to failures on the
// way to the certificate.
var ErrCreate = errors.New("the request could not be created")

// Requester asks a hub for certificates. It keeps the key of a request that is
// under way, in memory only, so that the next Obtain continues an interrupted
// one; the key is lost with the process. It is not safe for concurrent use.
type Requester struct {
	// Names are those in the certificate's subject.
	Names identity.Names
	// Renewing says that the hub is asked under the agent's own name, as opposed
	// to that of a bootstrap identity.
	Renewing bool
	// Expiration is the lifetime to ask for, in seconds; 0 leaves it to the hub.
	Expiration int32
	// Clock is the real one by default.
	Clock clock.Clock
	// Log is called with what is being waited for, once for each thing.
	Log func(level slog.Level, what string, args ...any)
	// Halted, if set, is called when no request is made because there are too
	// many of the agent on the hub.
	Halted func()

	request string
	keyPEM  []byte
	// former are the keys of requests that were made with other credentials, by the
	// names of the requests.
	former map[string][]byte

	described retry.Once
}

// AskAgain has the next Obtain make another request, as it comes with other
// credentials: the hub may approve at once what it let wait before. Requests that
// are under way count as well, and the first that is signed is taken.
func (r *Requester) AskAgain() {
	if r.request == "" {
		return
	}
	if r.former == nil {
		r.former = map[string][]byte{}
	}
	r.former[r.request] = r.keyPEM
	r.request, r.keyPEM = "", nil
}

// Obtain returns a certificate and its key. It waits for the hub to approve and
// to sign the request, however long that takes, through outages of the hub. It
// returns an error only when ctx ends, when the request can't be created, or
// when the hub no longer takes the caller's credentials.
func (r *Requester) Obtain(ctx context.Context, hub client.WithWatch) (certPEM, keyPEM []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	requests := mirror.New(mirror.Options[*certificatesv1.CertificateSigningRequest]{
		Client: hub,
		Clock:  r.Clock,
		List:   &certificatesv1.CertificateSigningRequestList{},
		// Exactly this selector is what a token may list with that is bound to
		// the cluster; other agents' requests are sorted out here.
		Select: []client.ListOption{client.MatchingLabels{cluster.NameLabel: r.Names.Cluster}},
		Report: func(err error) {
			switch {
			case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
				cancel(fmt.Errorf("watch the certificate requests of the cluster: %w", err))
			case err != nil:
				r.log(slog.LevelWarn, "the hub cannot be reached to see the certificate requests, trying again", "err", err)
			}
		},
	})
	changed := requests.Subscribe()
	done := make(chan struct{})
	go func() { defer close(done); requests.Run(ctx) }()
	defer func() { cancel(nil); <-done }()

	for {
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-changed:
		}
		if certPEM, keyPEM := r.takeFormer(requests.Objects()); certPEM != nil {
			return certPEM, keyPEM, nil
		}
		todo, own := next(requests.Objects(), cluster.CommonName(r.Names.Cluster, r.Names.Agent), r.Renewing, r.request)
		switch todo {
		case take:
			key := r.keyPEM
			r.request, r.keyPEM, r.former = "", nil, nil
			return own.Status.Certificate, key, nil
		case makeRequest:
			created, err := r.create(ctx, hub)
			if err != nil {
				return nil, nil, err
			}
			requests.Include(created)
		case awaitRoom:
			if r.Halted != nil {
				r.Halted()
			}
		}
		r.log(r.describe(todo, own))
	}
}

// takeFormer returns the certificate of a request that was made with other
// credentials, and its key; nil when there is none.
func (r *Requester) takeFormer(requests []*certificatesv1.CertificateSigningRequest) (certPEM, keyPEM []byte) {
	for _, request := range requests {
		if key, mine := r.former[request.Name]; mine && len(request.Status.Certificate) > 0 {
			r.request, r.keyPEM, r.former = "", nil, nil
			return request.Status.Certificate, key
		}
	}
	return nil, nil
}

func (r *Requester) create(ctx context.Context, hub client.Client) (*certificatesv1.CertificateSigningRequest, error) {
	if r.request != "" {
		r.log(slog.LevelInfo, fmt.Sprintf("the hub removed the certificate request %s, making a new one", r.request))
	}
	keyPEM, csr, err := newRequest(r.Names, r.Expiration)
	if err != nil {
		return nil, err
	}
	if err := hub.Create(ctx, csr); err != nil {
		return nil, fmt.Errorf("%w: create a certificate request for %s on the hub: %w",
			ErrCreate, cluster.CommonName(r.Names.Cluster, r.Names.Agent), nameless(err))
	}
	r.request, r.keyPEM = csr.Name, keyPEM
	return csr, nil
}

// nameless leaves out of a refusal the name that the hub made for the request: each
// attempt has another one, and would look like another problem.
func nameless(err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || status.ErrStatus.Details.Name == "" {
		return err
	}
	plain := *status
	plain.ErrStatus.Message = strings.ReplaceAll(plain.ErrStatus.Message, fmt.Sprintf(" %q", plain.ErrStatus.Details.Name), "")
	return &plain
}

// describe says what the next step waits for.
func (r *Requester) describe(todo step, own *certificatesv1.CertificateSigningRequest) (slog.Level, string) {
	switch todo {
	case awaitSignature:
		return slog.LevelInfo, fmt.Sprintf("waiting for the hub to sign the certificate request %s", own.Name)
	case awaitRoom:
		return slog.LevelWarn, fmt.Sprintf("ClientCertificateCreationHalted: the hub has %d or more certificate requests of this agent "+
			"already: delete those that are of no use: kubectl delete csr -l %s=%s",
			cluster.MaxPendingRequests, cluster.NameLabel, r.Names.Cluster)
	case awaitRemoval:
		return slog.LevelWarn, fmt.Sprintf("the hub turned down the certificate request %s (%s), a new one follows when it is gone: "+
			"kubectl delete csr %[1]s", own.Name, Why(own))
	}
	return slog.LevelInfo, fmt.Sprintf("waiting for the hub to approve the certificate request %s: kubectl certificate approve %[1]s",
		r.request)
}

func (r *Requester) log(level slog.Level, what string, args ...any) {
	if r.described.Changed(what) {
		r.Log(level, what, args...)
	}
}

// Why says why a request was turned down; "" for one that was not.
func Why(r *certificatesv1.CertificateSigningRequest) string {
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		if c := explanation(r, t); c != nil {
			return strings.TrimSuffix(strings.TrimSpace(string(t)+" "+c.Reason+": "+c.Message), ":")
		}
	}
	return ""
}

// MinExpiration is the shortest lifetime, in seconds, that may be asked for.
const MinExpiration = 3600

// Wanted is a certificate to ask for.
type Wanted struct {
	// GenerateName and Labels are those of the request.
	GenerateName string
	Labels       map[string]string
	Subject      pkix.Name
	DNSNames     []string
	// Signer is the hub's for its own API by default.
	Signer string
	// Expiration is the lifetime to ask for, in seconds; 0 leaves it to the signer.
	Expiration int32
}

// New makes a key and the request for a client certificate over it.
func New(w Wanted) (keyPEM []byte, _ *certificatesv1.CertificateSigningRequest, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: w.Subject, DNSNames: w.DNSNames}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate request: %w", err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: w.GenerateName, Labels: w.Labels},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: cmp.Or(w.Signer, certificatesv1.KubeAPIServerClientSignerName),
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}
	if w.Expiration > 0 {
		csr.Spec.ExpirationSeconds = ptr.To(w.Expiration)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), csr, nil
}

// newRequest makes a key and the request for the certificate of an agent over it.
func newRequest(names identity.Names, expiration int32) (keyPEM []byte, _ *certificatesv1.CertificateSigningRequest, err error) {
	return New(Wanted{
		GenerateName: names.Cluster + "-",
		Labels:       map[string]string{cluster.NameLabel: names.Cluster},
		Subject:      pkix.Name{CommonName: cluster.CommonName(names.Cluster, names.Agent), Organization: identity.Organizations(names.Cluster)},
		Expiration:   expiration,
	})
}

// RenewAt is when to renew a certificate: when 20 to 25 percent of its life
// remain. chance, from 0 to 1, says where in between, so that the agents of a
// fleet that started together don't renew together.
func RenewAt(notBefore, notAfter time.Time, chance float64) time.Time {
	remaining := float64(notAfter.Sub(notBefore)) * (0.2 + 0.05*chance)
	return notAfter.Add(-time.Duration(remaining))
}

// step is what to do next about a certificate.
type step int

const (
	// makeRequest: there is no request of ours, or none any longer.
	makeRequest step = iota
	// awaitRoom: the hub holds so many of the cluster's requests that another
	// one would only add to a flood.
	awaitRoom
	// awaitApproval: our request is not approved or denied yet.
	awaitApproval
	// awaitSignature: our request is approved; the hub has yet to sign.
	awaitSignature
	// awaitRemoval: our request was denied, or its signing failed. It stays
	// without effect until the hub removes it.
	awaitRemoval
	// take: the certificate is there.
	take
)

// next decides by the cluster's requests on the hub. mine is the name of the
// request whose key we have; "" when there is none. commonName is the agent's
// user name, renewing whether it comes to the hub under it.
//
// Requests that others made do not count. If they did, anyone who can make ten
// could keep the agent from renewing its certificate.
func next(requests []*certificatesv1.CertificateSigningRequest, commonName string, renewing bool, mine string) (step, *certificatesv1.CertificateSigningRequest) {
	var own *certificatesv1.CertificateSigningRequest
	count := 0
	for _, r := range requests {
		if _, addon := r.Labels[cluster.AddOnNameLabel]; addon {
			continue
		}
		if madeBy(r, commonName, renewing) {
			count++
		}
		if mine != "" && r.Name == mine {
			own = r
		}
	}
	if own == nil {
		if count >= cluster.MaxPendingRequests {
			return awaitRoom, nil
		}
		return makeRequest, nil
	}
	switch {
	case Has(own, certificatesv1.CertificateDenied), Has(own, certificatesv1.CertificateFailed):
		return awaitRemoval, own
	case !Has(own, certificatesv1.CertificateApproved):
		return awaitApproval, own
	case len(own.Status.Certificate) == 0:
		return awaitSignature, own
	}
	return take, own
}

// madeBy reports whether the agent made a request. What came under its own name is
// its own; before it has a name on the hub, what asks for its name.
func madeBy(r *certificatesv1.CertificateSigningRequest, commonName string, renewing bool) bool {
	if r.Spec.Username == commonName {
		return true
	}
	if renewing || strings.HasPrefix(r.Spec.Username, cluster.UserPrefix) {
		return false
	}
	identity, err := cluster.ParseRequest(r.Labels, r.Spec.SignerName, r.Spec.Request)
	return err == nil && identity.CommonName == commonName
}

// Has reports whether a condition of a request is true.
func Has(r *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) bool {
	return explanation(r, condition) != nil
}

func explanation(r *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i, c := range r.Status.Conditions {
		// Conditions from before there was a status in them have none.
		if c.Type == condition && (c.Status == corev1.ConditionTrue || c.Status == "") {
			return &r.Status.Conditions[i]
		}
	}
	return nil
}
