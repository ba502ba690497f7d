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
	if r.several() {
		if err := r.choose(ctx, stored); err != nil {
			return identity.Identity{}, err
		}
	}
	bootstrap, sourceErr := r.source.current()
	names := r.names(stored)
	useless := stored.Check(names, endpointOf(bootstrap), r.Clock.Now())
	switch {
	case useless == nil:
		return stored, nil
	case bootstrap == nil:
		return identity.Identity{}, fmt.Errorf("the agent cannot register: %w, and %w", useless, sourceErr)
	case len(stored.CertPEM) > 0:
		r.Log.Info("the stored identity cannot be used", "because", useless)
	}
	return r.bootstrap(ctx, names, bootstrap)
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

func endpointOf(b *identity.Bootstrap) *identity.Endpoint {
	if b == nil {
		return nil
	}
	return &b.Endpoint
}
