package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

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
