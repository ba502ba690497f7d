package work

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

const (
	// DefaultEvictionGracePeriod is how long the objects of a work stay that the
	// hub no longer has, in case it comes back.
	DefaultEvictionGracePeriod = time.Hour
	// DefaultMaxJSONRawLength is the longest JSON, in bytes, that feedback holds.
	DefaultMaxJSONRawLength = 1024
)

// Options say whose works are carried out where.
type Options struct {
	// ClusterName is the hub namespace that holds the works.
	ClusterName string
	// AgentID marks the AppliedManifestWorks that are this agent's; the hub's hash
	// by default.
	AgentID string
	// HubHost is the hub's URL exactly as in the agent's kubeconfig.
	HubHost string
	// Hub and ManagedCluster are the ways to both sides.
	Hub, ManagedCluster *rest.Config
	// EvictionGracePeriod is how long the objects of a work stay that the hub no
	// longer has; an hour by default.
	EvictionGracePeriod time.Duration
	// Features are the agent's gates; features.NewAgent by default.
	Features featuregate.FeatureGate
	// MaxJSONRawLength is the longest JSON, in bytes, that feedback may hold with
	// the gate features.RawFeedbackJSONString; 1024 by default.
	MaxJSONRawLength int
	// Metrics, when given, count the works by state and the applied objects.
	Metrics *Metrics
	// Log is the agent's logger, with the cluster's name; nothing is logged by
	// default.
	Log *slog.Logger
	// Clock is the real one by default.
	Clock clock.Clock
}

// Run carries out works until ctx ends, and returns nil then. It returns an
// error only when it cannot start.
func Run(ctx context.Context, o Options) error {
	a, err := newAgent(o)
	if err != nil {
		return fmt.Errorf("prepare to carry out works: %w", err)
	}
	if err := a.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("carry out works: %w", err)
	}
	return nil
}

// complete sets defaults.
func (o *Options) complete() {
	if o.AgentID == "" {
		o.AgentID = apiwork.HubHash(o.HubHost)
	}
	if o.EvictionGracePeriod == 0 {
		o.EvictionGracePeriod = DefaultEvictionGracePeriod
	}
	if o.MaxJSONRawLength == 0 {
		o.MaxJSONRawLength = DefaultMaxJSONRawLength
	}
	if o.Features == nil {
		o.Features = features.NewAgent()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

// maxRaw is the longest JSON, in bytes, that feedback may hold; 0 for none.
func (o *Options) maxRaw() int {
	if o.Features.Enabled(features.RawFeedbackJSONString) {
		return o.MaxJSONRawLength
	}
	return 0
}
