package certificate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
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
