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
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
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

// establish returns a usable identity: the stored one, or a new one from the
// hub. It returns an error only when ctx has ended.
func (r *Registration) establish(ctx context.Context) (identity.Identity, error) {
	backoff := retry.New(r.Clock, retry.Start(30*time.Second))
	for {
		id, err := r.tryEstablish(ctx)
		if err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return identity.Identity{}, ctx.Err()
		}
		if errors.Is(err, errSourceChanged) {
			backoff.Reset()
			continue
		}
		r.say(slog.LevelWarn, err.Error())
		backoff.Wait(ctx, r.changed)
	}
}

func (r *Registration) tryEstablish(ctx context.Context) (identity.Identity, error) {
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stored, err := r.store.Load(bounded)
	if err != nil {
		return identity.Identity{}, err
	}
	r.noteExpiry(stored)
	if !r.several() {
		r.source.refuse(r.usedBootstrap(stored))
	}
	if r.several() {
		if err := r.choose(ctx, stored); err != nil {
			return identity.Identity{}, err
		}
	}
	bootstrap, sourceErr := r.source.current()
	names := r.names(stored)
	useless := stored.Check(names, nil, r.Clock.Now())
	if useless == nil && bootstrap != nil {
		moved, err := r.reconcileEndpoint(ctx, stored, bootstrap.Endpoint)
		if err == nil && !moved.Equal(stored) {
			err = r.save(ctx, moved)
		}
		stored, useless = moved, err
	}
	switch {
	case useless == nil:
		return stored, nil
	case bootstrap == nil:
		return identity.Identity{}, fmt.Errorf("the agent cannot register: %w, and %w%s", useless, sourceErr, r.howToRejoin())
	case len(stored.CertPEM) > 0:
		r.Log.Info("the stored identity cannot be used", "because", useless)
	}
	return r.bootstrap(ctx, names, bootstrap, stored.Place)
}

// reconcileEndpoint returns the identity as it is good at the endpoint of the
// bootstrap kubeconfig, or why it is not. An endpoint of the same hub is not a reason
// to register again, wherever the hub has gone: the hub says which it is, and takes
// the agent's certificate.
func (r *Registration) reconcileEndpoint(ctx context.Context, id identity.Identity, e identity.Endpoint) (identity.Identity, error) {
	differs := id.Differs(e)
	if differs == "" {
		return id, nil
	}
	if id.Place.HubUID == "" {
		return id, errors.New(differs)
	}
	if err := r.isSameHub(ctx, id, e); err != nil {
		r.Log.Debug("the bootstrap kubeconfig does not lead to the hub of the stored identity", "err", err)
		return id, errors.New(differs)
	}
	r.Log.Info("the bootstrap kubeconfig leads to another endpoint of the same hub, and the agent goes over to it", "to", e.Server, "because", differs)
	return id.MoveTo(e), nil
}

// names returns those of the agent. Stored ones win over new ones.
func (r *Registration) names(stored identity.Identity) identity.Names {
	names := identity.Names{Cluster: r.ClusterName, Agent: r.AgentName}
	if problems := validation.IsDNS1123Subdomain(stored.Agent); names.Agent == "" && stored.Agent != "" && len(problems) > 0 {
		r.Log.Warn("the stored name of the agent can't be one, taking another",
			"secret", r.Namespace+"/"+cluster.HubKubeconfigSecret, "key", cluster.AgentNameKey, "name", stored.Agent)
	} else if names.Agent == "" {
		names.Agent = stored.Agent
	}
	if names.Agent == "" {
		// An interrupted bootstrap goes on under the name that it began with.
		if r.pending != nil {
			return r.pending.Names
		}
		names.Agent = utilrand.String(5)
	}
	return names
}
