package addon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// requests are the certificate requests of all add-ons of the cluster on the hub. They
// are watched only while one is under way: the hub looks at each change of a request
// for each agent that watches. It is safe for concurrent use.
type requests struct {
	hub         client.WithWatch
	clusterName string
	clock       clock.Clock
	log         *slog.Logger
	news        loop.Signal

	mu sync.Mutex
	// used says that somebody needs them in this pass.
	used    bool
	mirror  *mirror.Mirror[*certificatesv1.CertificateSigningRequest]
	end     context.CancelFunc
	running sync.WaitGroup
}

// use watches the requests until end of use. It returns nil until they are known.
func (r *requests) use(ctx context.Context) *mirror.Mirror[*certificatesv1.CertificateSigningRequest] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = true
	if r.mirror == nil {
		r.mirror = mirror.New(mirror.Options[*certificatesv1.CertificateSigningRequest]{
			Client: r.hub, List: &certificatesv1.CertificateSigningRequestList{}, Clock: r.clock,
			Select: []client.ListOption{client.MatchingLabels{cluster.NameLabel: r.clusterName}, client.HasLabels{cluster.AddOnNameLabel}},
			Report: func(err error) {
				if err != nil {
					r.log.Debug("cannot watch the add-ons' certificate requests on the hub, trying again", "err", err)
				}
			},
			Backoff: ptr.To(retry.Quick(time.Minute)),
		})
		ctx, r.end = context.WithCancel(ctx)
		m := r.mirror
		m.Notify(r.news)
		r.running.Go(func() { m.Run(ctx) })
	}
	if !isFilled(r.mirror) {
		return nil
	}
	return r.mirror
}

// rest ends the watch when nobody has used it since the last call.
func (r *requests) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.used && r.mirror != nil {
		r.end()
		r.mirror = nil
	}
	r.used = false
}

// find is a request that the agent has made, nil when the hub has it no more. The
// mirror may not show it yet.
func (r *requests) find(ctx context.Context, seen *mirror.Mirror[*certificatesv1.CertificateSigningRequest], name string) (*certificatesv1.CertificateSigningRequest, error) {
	if own, ok := seen.Get(name); ok {
		return own, nil
	}
	live := &certificatesv1.CertificateSigningRequest{}
	err := r.hub.Get(ctx, client.ObjectKey{Name: name}, live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the certificate request %s: %w", name, err)
	}
	seen.Include(live)
	return live, nil
}

// countOf is how many requests of an add-on the hub has, in any state. Those count
// that agents of the cluster have made: others could keep the add-on from a
// certificate.
func (r *requests) countOf(addOn string, seen *mirror.Mirror[*certificatesv1.CertificateSigningRequest]) int {
	n := 0
	for _, one := range seen.Objects() {
		if one.Labels[cluster.AddOnNameLabel] == addOn && registration.MadeByAgent(one, r.clusterName) {
			n++
		}
	}
	return n
}
