package memory

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
)

// Object is what is remembered of one manifest and its object.
type Object struct {
	Applied
	report.Observed
}

// Applied is what applying a manifest led to.
type Applied struct {
	// Hash is that of the manifest and of how it was to be treated.
	Hash manifest.Hash
	// Owner is the AppliedManifestWork that the object was given.
	Owner types.UID
	// Executor is who has to be allowed to apply the manifest, and allowed is when
	// that was found to be so.
	Executor string
	Allowed  time.Time
	// Err is why the manifest could not be applied.
	Err error
	// Body is that of the object as it was left; all zeros when it is not known.
	Body manifest.Hash
	// Corrections are how often the object had to be restored, and paused is how
	// long to wait before that is done again.
	Corrections Corrections
	Paused      time.Duration
	// Rivals are the other works that had the object when it was restored last.
	Rivals []string
}

// Outcome is what is reported of it now.
func (r Object) Outcome(now time.Time) report.Outcome {
	return report.Outcome{Applied: r.Err, Contested: r.Corrections.Contested(now), Rivals: r.Rivals, Observed: r.Observed}
}

// Memory remembers what became of the manifests of each work, so that nothing
// is requested again that cannot have changed. It may be lost at any time. It is
// safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	works map[string]map[manifest.Key]Object
	// slow are the works whose rules took long when they were last evaluated.
	slow map[string]bool
	// remainders are the objects that a deleted AppliedManifestWork waits for.
	remainders map[string][]report.Remainder
	// rooms are how much room the hub leaves to statuses that it has refused.
	rooms map[string]room
}

// room is how much room there is for the status of a generation, in bytes.
type room struct {
	generation int64
	bytes      int
}

// New makes an empty Memory.
func New() *Memory {
	return &Memory{
		works: map[string]map[manifest.Key]Object{}, slow: map[string]bool{},
		remainders: map[string][]report.Remainder{}, rooms: map[string]room{},
	}
}

// Known is what is remembered of a work's manifests. The map must not be
// changed.
func (m *Memory) Known(work string) map[manifest.Key]Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.works[work]
}

// SetObjects remembers what became of all manifests of a work. The map belongs
// to the memory from then on.
func (m *Memory) SetObjects(work string, objects map[manifest.Key]Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.works[work] = objects
}

// DoubtRights has the rights of executors asked for again, and returns the works
// that have one.
func (m *Memory) DoubtRights() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name, known := range m.works {
		doubted := make(map[manifest.Key]Object, len(known)) // others read the old one
		executed := false
		for key, o := range known {
			executed = executed || o.Executor != ""
			o.Allowed = time.Time{}
			doubted[key] = o
		}
		if executed {
			m.works[name] = doubted
			names = append(names, name)
		}
	}
	return names
}

// IsSlow reports whether the rules of a work took long at the last look.
func (m *Memory) IsSlow(work string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slow[work]
}

// SetSlow remembers whether the rules of a work took long.
func (m *Memory) SetSlow(work string, slow bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.slow, work)
	if slow {
		m.slow[work] = true
	}
}

// SetRemainders remembers what a deleted AppliedManifestWork waits for, and
// reports whether that is news.
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

// Room is how much room the hub leaves to the status of a work, in bytes. known
// is false while it has not refused one of this generation.
func (m *Memory) Room(work string, generation int64) (bytes int, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.rooms[work]
	return r.bytes, known && r.generation == generation
}

// SetRoom remembers how much room there is for the status of a work.
func (m *Memory) SetRoom(work string, generation int64, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rooms[work] = room{generation, bytes}
}

// Forget removes what is remembered of a work and of its AppliedManifestWork.
func (m *Memory) Forget(work, applied string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.slow, work)
	delete(m.works, work)
	delete(m.rooms, work)
	delete(m.remainders, applied)
}
