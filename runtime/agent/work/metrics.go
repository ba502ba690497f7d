package work

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Metrics count the works by state and the applied objects. They last longer than a
// session with one hub. A nil Metrics counts nothing.
type Metrics struct {
	applies   *prometheus.HistogramVec
	conflicts *prometheus.CounterVec
	works     *prometheus.GaugeVec

	mu     sync.Mutex
	states map[string]string // by work
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		applies: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_work_apply_duration_seconds",
			Help: "How long it took to bring one object in line with its manifest, " +
				"by update strategy and by whether it succeeded.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"strategy", "result"}),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_work_apply_conflicts_total",
			Help: "Writes of objects that others had changed meanwhile (update), or whose fields others own (apply).",
		}, []string{"kind"}),
		works: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "muster_works",
			Help: "Works of the cluster by state: available, unavailable (applied, but not all objects are there), " +
				"failed (not applied), complete, deleting.",
		}, []string{"state"}),
		states: map[string]string{},
	}
	r.MustRegister(m.applies, m.conflicts, m.works)
	for _, state := range []string{"available", "unavailable", "failed", "complete", "deleting"} {
		m.works.WithLabelValues(state)
	}
	return m
}

// applied counts an attempt to apply an object.
func (m *Metrics) applied(strategy workv1.UpdateStrategyType, took time.Duration, err error) {
	if m == nil {
		return
	}
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.applies.WithLabelValues(string(strategy), result).Observe(took.Seconds())
	if manifest.IsConflict(err) {
		m.conflicts.WithLabelValues("apply").Inc()
	}
}

// updateConflicted counts an update that another write came before.
func (m *Metrics) updateConflicted() {
	if m != nil {
		m.conflicts.WithLabelValues("update").Inc()
	}
}

// setState records the state of a work.
func (m *Metrics) setState(mw *workv1.ManifestWork) { m.set(mw.Name, stateOf(mw)) }

// set records the state of a work by its name. An empty state removes it.
func (m *Metrics) set(name, state string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.states[name]; before != "" {
		m.works.WithLabelValues(before).Dec()
	}
	delete(m.states, name)
	if state != "" {
		m.states[name] = state
		m.works.WithLabelValues(state).Inc()
	}
}

// reset removes all works: another hub has others.
func (m *Metrics) reset() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, state := range m.states {
		m.works.WithLabelValues(state).Dec()
	}
	m.states = map[string]string{}
}

func stateOf(mw *workv1.ManifestWork) string {
	is := func(condition string) bool { return meta.IsStatusConditionTrue(mw.Status.Conditions, condition) }
	switch {
	case !mw.DeletionTimestamp.IsZero():
		return "deleting"
	case is(apiwork.ConditionComplete):
		return "complete"
	case !is(apiwork.ConditionApplied):
		return "failed"
	case !is(apiwork.ConditionAvailable):
		return "unavailable"
	}
	return "available"
}
