package budget

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_budget_refusals_total",
		Help: "Writes that were refused as their author had used up a budget, " +
			"by the budget (object, kept, rate, store) and by whose it is (cluster, token, user).",
	}, []string{"budget", "owner"})
	storeBytes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "muster_store_bytes",
		Help: "Size of the hub's store: bytes in use, of the file, and of the quota, when it was last looked at.",
	}, []string{"what"})
)

func init() { metrics.Registry.MustRegister(refusals, storeBytes) }
