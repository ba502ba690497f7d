// Package agent is what runs in or for each managed cluster: it registers the
// cluster with a hub, reports on it, and carries out the works that the hub
// has for it. If asked to, it lets users of the hub in.
//
// Run takes the options of `muster agent` and starts the parts of the agent,
// registration, work and user access, the installation of the kinds that works need, and the
// server for health and metrics. Several agents may run in a process: each has
// its own logger, metrics and clients. The package must not import the hub or the
// control plane.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/preview"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// drainTimeout is how long Run waits, once its context has ended, for what it
// started.
const drainTimeout = 4 * time.Second

// Run is an agent's life: it registers the cluster, reports on it and carries
// out its works until ctx ends. It returns nil then, within five seconds, and
// an error only when it can't start: because of an option, or because
// HealthAddress is taken.
func Run(ctx context.Context, o Options) error {
	o.Complete()
	if err := o.Validate(); err != nil {
		return err
	}
	local, err := newLocals(o.ManagedCluster)
	if err != nil {
		return err
	}
	named := o.ClusterName != ""
	if err := o.nameCluster(ctx, local.client); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	log := o.Log
	if o.ClusterName != "" {
		log = log.With("cluster", o.ClusterName)
	}
	ctx = logging.NewContext(ctx, log)
	options, err := o.registration(local, log)
	if err != nil {
		return err
	}
	options.Named = named
	metrics := newMetrics()
	options.Metrics = metrics.registration()
	installed := newInstallation(local.config, o.Clock, log)
	options.Ready, options.Answered = installed.tried, o.Ready
	options.Accepted = o.accepted(local.config, installed, log, work.NewMetrics(metrics.registry))
	reg := registration.New(options)

	serve, err := o.healthServer(metrics, reg)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { serve(ctx, log) })
	running.Go(func() { installed.run(ctx) })
	running.Go(func() { reg.Run(ctx) })
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	<-ctx.Done()
	timeout := o.Clock.NewTimer(drainTimeout)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C():
		log.Warn("some of the agent's work did not stop in time, leaving it")
	}
	return nil
}

// accepted is what runs once the hub has accepted the cluster.
func (o Options) accepted(local *rest.Config, installed *installation, log *slog.Logger, metrics *work.Metrics) func(context.Context, registration.Hub) error {
	return func(ctx context.Context, hub registration.Hub) error {
		// Works are accounted for in kinds of the wire.
		select {
		case <-installed.done:
		case <-ctx.Done():
			return nil
		}
		o, log := o, log
		if o.ClusterName != hub.ClusterName { // the hub has said it meanwhile
			o.ClusterName, log = hub.ClusterName, log.With("cluster", hub.ClusterName)
		}
		ctx, end := context.WithCancelCause(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer end(nil)
		part := o.part(local, hub, log)
		if o.UserAccess {
			running.Go(func() {
				end(access.Run(ctx, access.Options{
					Part: part, HubHost: hub.Host, Annotate: hub.Annotate, Tunnels: o.Tunnels, Upgrades: hub.Upgrades,
				}))
			})
		} else {
			hub.Annotate(muster.UserAccessAnnotation, "")
			hub.Annotate(muster.TunnelAnnotation, "")
		}
		if o.Features.Enabled(features.WorkPreview) {
			running.Go(func() {
				end(preview.Run(ctx, preview.Options{
					Part: part, HubHost: hub.Host, Annotate: hub.Annotate,
					Asked:   func() string { return hub.Annotation(muster.PreviewsAskedAnnotation) },
					Changed: hub.ChangedForPreviews,
				}))
			})
		} else {
			hub.Annotate(muster.WorkPreviewsAnnotation, "")
		}
		if o.Features.Enabled(features.AddonManagement) {
			running.Go(func() { end(o.registerAddOns(ctx, part, hub)) })
		}
		err := o.Work(ctx, work.Options{
			ClusterName:         o.ClusterName,
			AgentID:             o.AgentID,
			HubHost:             hub.Host,
			Hub:                 hub.Config,
			ManagedCluster:      rest.CopyConfig(local),
			EvictionGracePeriod: o.EvictionGracePeriod,
			MaxJSONRawLength:    o.MaxJSONRawLength,
			Features:            o.Features,
			Metrics:             metrics,
			Clock:               o.Clock,
			Log:                 log,
		})
		if err == nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
			err = context.Cause(ctx) // why one of them has ended
		}
		return err
	}
}

// part is what previews, add-ons and user access need.
func (o Options) part(local *rest.Config, hub registration.Hub, log *slog.Logger) engine.Part {
	return engine.Part{
		ClusterName:    o.ClusterName,
		Namespace:      o.Namespace,
		Hub:            hub.Config,
		ManagedCluster: local,
		Clock:          o.Clock,
		Log:            log,
	}
}

// registerAddOns looks after the add-ons of the cluster until ctx ends.
func (o Options) registerAddOns(ctx context.Context, part engine.Part, hub registration.Hub) error {
	return addon.Run(ctx, addon.Options{
		Part:            part,
		Endpoint:        hub.Endpoint,
		Driver:          o.AddOnKubeClientRegistrationAuth,
		TokenExpiration: time.Duration(o.AddOnTokenExpirationSeconds) * time.Second,
		Announced:       func() bool { return hub.Annotation(muster.AddOnsAnnotation) != "" },
		Changed:         hub.ChangedForAddOns,
	})
}

// locals are the ways to the managed cluster.
type locals struct {
	config *rest.Config
	client client.WithWatch
	rest   rest.Interface
}

func newLocals(given *rest.Config) (locals, error) {
	config := rest.CopyConfig(given)
	config.UserAgent = userAgent
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		return locals{}, fmt.Errorf("prepare the connection to the managed cluster %s: %w", config.Host, err)
	}
	plain := rest.CopyConfig(config)
	plain.GroupVersion = &schema.GroupVersion{}
	plain.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	r, err := rest.UnversionedRESTClientFor(plain)
	if err != nil {
		return locals{}, fmt.Errorf("prepare the connection to the managed cluster %s: %w", config.Host, err)
	}
	return locals{config: config, client: c, rest: r}, nil
}

// metrics are one agent's: several may share a process.
type metrics struct {
	registry *prometheus.Registry
	beats    prometheus.Counter
	expires  prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		beats: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muster_agent_heartbeats_total",
			Help: "Renewals of the cluster's lease on the hub.",
		}),
		expires: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muster_agent_certificate_expiration_timestamp_seconds",
			Help: "When the agent's certificate for the hub expires, in Unix time; 0 while it has none.",
		}),
	}
	m.registry.MustRegister(m.beats, m.expires, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) registration() registration.Metrics {
	return registration.Metrics{
		Beat:               m.beats.Inc,
		CertificateExpires: func(t time.Time) { m.expires.Set(float64(t.Unix())) },
	}
}

// healthServer listens, so that an address that can't be had fails the start,
// and returns what serves until its context ends.
func (o Options) healthServer(m *metrics, reg *registration.Registration) (serve func(context.Context, *slog.Logger), err error) {
	if o.HealthAddress == "" {
		return func(context.Context, *slog.Logger) {}, nil
	}
	listener, err := net.Listen("tcp", o.HealthAddress)
	if err != nil {
		return nil, fmt.Errorf("cannot serve health and metrics at --health-address %s: %w: choose another address, or leave it out",
			o.HealthAddress, err)
	}
	server := &http.Server{Handler: healthHandler(m, reg), ReadHeaderTimeout: 10 * time.Second}
	return func(ctx context.Context, log *slog.Logger) {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("health and metrics are no longer served", "err", err)
		}
	}, nil
}

// healthHandler says yes to /livez as long as the process works: an agent that waits
// for the hub is to be left alone, and a restart would not help it. What it waits for is
// in the answer.
//
// /readyz says yes from the hub's first answer on, so that an upgrade with which the
// agent can't reach the hub does not take the place of the agent from before. It does
// not go back: nothing but rollouts depends on it, and a hub that is away is not a reason
// for one.
//
// /healthz asks more: it fails, by its check hub-kube-config, while the certificate has
// expired and no other one could be had, for monitoring.
func healthHandler(m *metrics, reg *registration.Registration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok:", reg.State()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !reg.Reached() {
			http.Error(w, "the hub has not answered since the agent was started: "+reg.State(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok:", reg.State())
	})
	healthz.InstallPathHandler(mux, "/healthz", healthz.PingHealthz, healthz.NamedCheck("hub-kube-config", func(*http.Request) error {
		if reg.Expired() {
			return fmt.Errorf("the client certificate expires and rebootstrap is required. %s", reg.State())
		}
		return nil
	}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}
