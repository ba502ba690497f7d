package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration"
)

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
