package addon

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// userAgent is what the agent calls itself in requests.
const userAgent = "muster-addon-agent"

// Options say whose add-ons are looked after where.
type Options struct {
	engine.Part
	// Endpoint is where the agents of add-ons find the hub.
	Endpoint Endpoint
	// Driver is registration.DriverCSR, the default, or registration.DriverToken.
	Driver string
	// TokenExpiration is the lifetime to ask for tokens;
	// registration.DefaultTokenExpiration seconds by default.
	TokenExpiration time.Duration

	// void is the time until which the hub's certificates are of no use, as they were
	// issued for the agent that this one has replaced.
	void time.Time
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
	if o.Driver == "" {
		o.Driver = registration.DriverCSR
	}
	if o.TokenExpiration == 0 {
		o.TokenExpiration = registration.DefaultTokenExpiration * time.Second
	}
	return o.Part.Run(ctx, "add-ons", userAgent, o.look)
}

// look asks the hub for add-ons, and returns what looks after them; nil when it has
// no such kind.
func (o Options) look(ctx context.Context, hub, local client.WithWatch) (func(context.Context) error, error) {
	version, err := o.versionOf(ctx, hub)
	if err != nil || version == "" {
		return nil, err
	}
	if o.void, err = o.takeOver(ctx, hub); err != nil {
		return nil, err
	}
	a, err := newAgent(o, hub, local, version)
	if err != nil {
		return nil, err
	}
	return a.run, nil
}

// takeOver is the time until which certificates are void, by the cluster's annotations on
// the hub. It is before this agent's own certificate, so it needs no watch.
func (o Options) takeOver(ctx context.Context, hub client.Client) (time.Time, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: o.ClusterName}, mc); client.IgnoreNotFound(err) != nil {
		return time.Time{}, err
	}
	return cluster.VoidUntil(mc.Annotations), nil
}

// versionOf is the newest version of ManagedClusterAddOns that the hub serves and the
// agent knows: v1beta1, or v1alpha1 with older hubs; "" when it has none.
func (o Options) versionOf(ctx context.Context, hub client.Client) (string, error) {
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
