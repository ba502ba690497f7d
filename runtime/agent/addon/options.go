package addon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// userAgent is what the agent calls itself in requests.
const userAgent = "muster-addon-agent"

// Options say whose add-ons are looked after where.
type Options struct {
	// ClusterName is the hub namespace that holds the add-ons.
	ClusterName string
	// Namespace is the agent's namespace in the managed cluster;
	// cluster.AgentNamespace by default.
	Namespace string
	// Hub and ManagedCluster are the ways to both sides.
	Hub, ManagedCluster *rest.Config
	// Endpoint is where the agents of add-ons find the hub.
	Endpoint Endpoint
	// Driver is registration.DriverCSR, the default, or registration.DriverToken.
	Driver string
	// TokenExpiration is the lifetime to ask for tokens;
	// registration.DefaultTokenExpiration seconds by default.
	TokenExpiration time.Duration
	// Log is the agent's logger, with the cluster's name; nothing is logged by
	// default.
	Log *slog.Logger
	// Clock is the real one by default.
	Clock clock.Clock
}

// Endpoint is what the kubeconfigs of add-ons say about the hub.
type Endpoint struct {
	// Cluster is the name of the cluster entry.
	Cluster string
	Server  string
	CAData  []byte
	// ProxyURL and TLSServerName may be empty.
	ProxyURL, TLSServerName string
}

// Run looks after the add-ons until ctx ends, and returns nil then. It returns an
// error only when it cannot start.
func Run(ctx context.Context, o Options) error {
	o.complete()
	hub, err := connect(o.Hub)
	if err != nil {
		return fmt.Errorf("prepare the registration of add-ons: connect to the hub: %w", err)
	}
	local, err := connect(o.ManagedCluster)
	if err != nil {
		return fmt.Errorf("prepare the registration of add-ons: connect to the managed cluster: %w", err)
	}
	o.run(ctx, hub, local)
	return nil
}

// complete sets defaults.
func (o *Options) complete() {
	if o.Namespace == "" {
		o.Namespace = cluster.AgentNamespace
	}
	if o.Driver == "" {
		o.Driver = registration.DriverCSR
	}
	if o.TokenExpiration == 0 {
		o.TokenExpiration = registration.DefaultTokenExpiration * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

func connect(given *rest.Config) (client.WithWatch, error) {
	config := rest.CopyConfig(given)
	config.UserAgent, config.QPS = userAgent, -1
	return client.NewWithWatch(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
}

const (
	// lookPeriod is how often a hub without add-ons is asked whether it has them by
	// now.
	lookPeriod = time.Hour
	// requestTimeout bounds single requests.
	requestTimeout = 30 * time.Second
)

// run looks after the add-ons for as long as the hub has the kind, and in between asks
// it once an hour, until ctx ends.
func (o Options) run(ctx context.Context, hub, local client.WithWatch) {
	failing := retry.New(o.Clock, retry.Start(time.Minute))
	for ctx.Err() == nil {
		version, err := o.version(ctx, hub)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			// Also while the hub denies the cluster.
			o.Log.Debug("cannot ask the hub for the cluster's add-ons, trying again", "err", err)
			failing.Wait(ctx, nil)
			continue
		case version == "":
			o.Log.Debug("the hub has no add-ons, asking again once an hour")
			retry.Sleep(ctx, o.Clock, lookPeriod, nil)
			continue
		}
		start := o.Clock.Now()
		newAgent(o, hub, local, version).run(ctx)
		if o.Clock.Since(start) > time.Minute {
			failing.Reset()
		}
		failing.Wait(ctx, nil)
	}
}

// version is the newest version of ManagedClusterAddOns that the hub serves and the
// agent knows: v1beta1, or v1alpha1 with older hubs; "" when it has none.
func (o Options) version(ctx context.Context, hub client.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, l := range []struct {
		version string
		list    client.ObjectList
	}{
		{addonv1beta1.GroupVersion.Version, &addonv1beta1.ManagedClusterAddOnList{}},
		{addonv1alpha1.GroupVersion.Version, &addonv1alpha1.ManagedClusterAddOnList{}},
	} {
		err := hub.List(ctx, l.list, client.InNamespace(o.ClusterName), client.Limit(1))
		if !apierrors.IsNotFound(err) {
			return l.version, err
		}
	}
	return "", nil
}
