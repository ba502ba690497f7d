package decide

import (
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
)

// Memory is the cache of what the passes over each work led to. It may be lost at
// any time. It is safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	works map[string]remembered
	// rights counts how often all rights of executors may have changed.
	rights int
	// remainders are the objects that a deleted AppliedManifestWork waits for.
	remainders map[string][]report.Remainder
}

// remembered is what is remembered of a work.
type remembered struct {
	results map[manifest.Key]Result
	// slow says that the rules of the work took long when they were last evaluated.
	slow bool
	// room is how much room the hub leaves to a status of a generation, in bytes; nil
	// while it has not refused one.
	room *room
}

type room struct {
	generation int64
	bytes      int
}

// NewMemory makes an empty Memory.
func NewMemory() *Memory {
	return &Memory{works: map[string]remembered{}, remainders: map[string][]report.Remainder{}}
}

// Snapshot is what is remembered of a work when a pass over it begins.
type Snapshot struct {
	// Results are those of the last pass. The map must not be changed.
	Results map[manifest.Key]Result
	// Slow says that the rules of the work took long in the last pass.
	Slow bool

	rights int
}

// Recall is what is remembered of a work.
func (m *Memory) Recall(work string) Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.works[work]
	return Snapshot{w.results, w.slow, m.rights}
}

// change changes what is remembered of a work.
func (m *Memory) change(work string, f func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.works[work]
	f(&w)
	m.works[work] = w
}

// Remember remembers what a pass that began with a snapshot led to. The map
// belongs to the memory from then on. Where rights may have changed since the
// snapshot, they are not remembered, and Remember reports that the work needs
// another pass.
func (m *Memory) Remember(work string, began Snapshot, results map[manifest.Key]Result) (again bool) {
	m.change(work, func(w *remembered) {
		if began.rights != m.rights {
			again = forgetRights(results)
		}
		w.results = results
	})
	return again
}

// forgetRights forgets when rights were found to be there, and reports whether the
// work depends on any.
func forgetRights(results map[manifest.Key]Result) (executed bool) {
	for key, r := range results {
		executed = executed || r.Executor != ""
		r.Allowed = time.Time{}
		results[key] = r
	}
	return executed
}

// ForgetRights has the rights of executors asked for again, and returns the works
// that have one.
func (m *Memory) ForgetRights() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rights++
	var names []string
	for name, w := range m.works {
		results := maps.Clone(w.results) // others read the old one
		if forgetRights(results) {
			w.results = results
			m.works[name] = w
			names = append(names, name)
		}
	}
	return names
}

// SetSlow remembers whether the rules of a work took long.
func (m *Memory) SetSlow(work string, slow bool) {
	m.change(work, func(w *remembered) { w.slow = slow })
}

// Room is how much room the hub leaves to the status of a work, in bytes. known
// is false while it has not refused one of this generation.
func (m *Memory) Room(work string, generation int64) (bytes int, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.works[work].room
	if r == nil || r.generation != generation {
		return 0, false
	}
	return r.bytes, true
}

// SetRoom remembers how much room there is for the status of a work.
func (m *Memory) SetRoom(work string, generation int64, bytes int) {
	m.change(work, func(w *remembered) { w.room = &room{generation, bytes} })
}

// SetRemainders remembers what a deleted AppliedManifestWork waits for, and
// reports whether that is another than before.
func (m *Memory) SetRemainders(applied string, left []report.Remainder) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if reflect.DeepEqual(m.remainders[applied], left) {
		return false
	}
	m.remainders[applied] = left
	return true
}

// Remaining is what a deleted AppliedManifestWork waits for. known is false
// before anything was remembered of it.
func (m *Memory) Remaining(applied string) (left []report.Remainder, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left, known = m.remainders[applied]
	return left, known
}

// Forget removes what is remembered of a work and of its AppliedManifestWork.
func (m *Memory) Forget(work, applied string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.works, work)
	delete(m.remainders, applied)
}
