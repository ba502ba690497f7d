package registration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// requestTimeout bounds single requests to a hub.
const requestTimeout = 30 * time.Second

// bootstrap gets an identity from the hub that the bootstrap kubeconfig leads
// to, and stores it. place is what the agent knows of its last hub, which it keeps
// if this one is the same.
func (r *Registration) bootstrap(ctx context.Context, names identity.Names, b *identity.Bootstrap, place identity.Place) (identity.Identity, error) {
	hub, err := r.newClient(b.Config)
	if err != nil {
		return identity.Identity{}, fmt.Errorf("prepare the connection to the hub %s: %w", b.Endpoint.Server, err)
	}
	if names, err = r.confirmName(ctx, hub, names, b); err != nil {
		return identity.Identity{}, explain(err, b.Endpoint.Server)
	}
	// The name outlives an interrupted bootstrap, so that the hub's people see
	// one agent and not a new one after each restart.
	if err := r.store.Save(ctx, identity.Identity{Names: names}); err != nil {
		return identity.Identity{}, err
	}
	if err := r.createCluster(ctx, hub); err != nil {
		return identity.Identity{}, explain(err, b.Endpoint.Server)
	}
	certPEM, keyPEM, err := r.obtain(ctx, hub, names, b)
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), cluster.RefusedUnregistered) && !r.Named && !r.several() {
		// The agent has its name from an earlier token.
		if names, err = r.claimAgain(ctx, hub, names, b, err); err == nil {
			certPEM, keyPEM, err = r.obtain(ctx, hub, names, b)
		}
	}
	if err != nil {
		return identity.Identity{}, explain(err, b.Endpoint.Server)
	}
	id := identity.Identity{Names: names, Hub: b.Endpoint, CertPEM: certPEM, KeyPEM: keyPEM}
	if place.HubUID != "" && r.isSameHub(ctx, identity.Identity{Names: names, CertPEM: certPEM, KeyPEM: keyPEM, Place: place}, b.Endpoint) == nil {
		id.Place = place
	}
	if err := id.Check(names, nil, r.Clock.Now()); err != nil {
		return identity.Identity{}, fmt.Errorf("the hub %s signed a certificate that cannot be used: %w", b.Endpoint.Server, err)
	}
	if err := r.save(ctx, id); err != nil {
		return identity.Identity{}, err
	}
	r.pending = nil
	return id, nil
}

// createCluster makes the ManagedCluster unless it is there.
func (r *Registration) createCluster(ctx context.Context, hub client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	mc := &clusterv1.ManagedCluster{}
	err := hub.Get(ctx, client.ObjectKey{Name: r.ClusterName}, mc)
	if apierrors.IsNotFound(err) {
		err = client.IgnoreAlreadyExists(hub.Create(ctx, r.newCluster()))
	}
	if apierrors.IsForbidden(err) {
		// The bootstrap identity may be one that can only ask for certificates,
		// for a cluster that others create.
		if because := err.Error(); r.cannotCreate.Changed(because) {
			r.Log.Info("the bootstrap kubeconfig does not allow the agent to create its ManagedCluster, going on without", "because", because)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the ManagedCluster %s on the hub: %w", r.ClusterName, err)
	}
	return nil
}

func (r *Registration) newCluster() *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: r.ClusterName, Annotations: r.agentAnnotations()},
		Spec: clusterv1.ManagedClusterSpec{
			HubAcceptsClient:            ptr.To(false),
			ManagedClusterClientConfigs: r.ClientConfigs,
		},
	}
}

// agentAnnotations are those of the given annotations that an agent may set.
func (r *Registration) agentAnnotations() map[string]string {
	kept := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(r.Annotations)) {
		if strings.HasPrefix(k, cluster.AgentAnnotationPrefix) {
			kept[k] = r.Annotations[k]
		} else {
			r.Log.Warn("an annotation is left out, as agents may only set those with a certain prefix",
				"annotation", k, "prefix", cluster.AgentAnnotationPrefix)
		}
	}
	return kept
}

// obtain asks for a certificate and waits for it, as long as the bootstrap
// kubeconfig stays the same.
func (r *Registration) obtain(ctx context.Context, hub client.WithWatch, names identity.Names, b *identity.Bootstrap) (certPEM, keyPEM []byte, err error) {
	if r.pending == nil || r.pending.Names != names || !r.pendingHub.Equal(b.Endpoint) {
		r.pending = r.requester(names, r.say)
		r.pendingHub = b.Endpoint
	} else if r.pendingBy != b.Credentials() {
		r.pending.AskAgain()
	}
	r.pendingBy = b.Credentials()
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.changed:
			}
			if now, err := r.source.current(); err == nil && !bytes.Equal(now.Content, b.Content) {
				cancel(errSourceChanged)
			}
		}
	}()
	defer func() { cancel(nil); <-done }()
	return r.pending.Obtain(ctx, hub)
}

func (r *Registration) requester(names identity.Names, log func(slog.Level, string, ...any)) *certificate.Requester {
	return &certificate.Requester{Names: names, Expiration: r.CertificateExpiration, Clock: r.Clock, Log: log}
}

// save stores an identity and tries until it is stored: the key exists nowhere
// else.
func (r *Registration) save(ctx context.Context, id identity.Identity) error {
	return retry.Until(ctx, r.Clock, retry.Quick(10*time.Second), func(ctx context.Context) error {
		bounded, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		err := r.store.Save(bounded, id)
		if err != nil && ctx.Err() == nil {
			r.say(slog.LevelWarn, "cannot store the agent's identity, trying again: "+
				"allow the agent to write Secrets in the namespace "+r.Namespace, "err", err)
		}
		return err
	})
}

// explain adds the remedy to what a hub said to a bootstrap kubeconfig.
func explain(err error, server string) error {
	switch {
	case errors.Is(err, errSourceChanged), errors.Is(err, errUnanswered), errors.As(err, &refusedError{}):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the hub %s does not know the credentials in the bootstrap kubeconfig: they may have expired: make a new token and put it in: %w",
			server, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the hub %s does not let the bootstrap kubeconfig register the cluster: use a token for this cluster or for any: %w",
			server, err)
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !errors.Is(err, context.Canceled):
		return fmt.Errorf("the hub %s cannot be reached, trying again; if it is up, see to the address and the certificate authority in "+
			"the bootstrap kubeconfig: %w", server, err)
	}
	return err
}
