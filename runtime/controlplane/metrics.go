package controlplane

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metricsHandler serves the metrics of the API server together with those of
// controllers in this process. Where both have a metric of the same name, such
// as those of the Go runtime, the API server's counts.
func metricsHandler() http.Handler {
	gather := func() ([]*dto.MetricFamily, error) {
		server, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			return server, err
		}
		known := map[string]bool{}
		for _, f := range server {
			known[f.GetName()] = true
		}
		controllers, err := controllermetrics.Registry.Gather()
		for _, f := range controllers {
			if !known[f.GetName()] {
				server = append(server, f)
			}
		}
		slices.SortFunc(server, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
		return server, err
	}
	return promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
