package work

import (
	"crypto/sha256"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// outcome is what became of one manifest.
type outcome struct {
	hash [sha256.Size]byte
	// resourceVersion and uid are those of the object; empty when there is none.
	resourceVersion string
	uid             types.UID
	body            bodyHash // of the object as it was left
	applied         error    // why the manifest could not be applied
	fetched         error    // why the object could not be read
	hidden          bool     // it was not read, as the work's executor may not get it
	exists          bool
	feedback        feedback
	conditions      []metav1.Condition // that the rules yield
	progress        progress
	// kept says that the work is complete: what was said of applying it stays.
	kept bool
	// owner is the AppliedManifestWork that the object was given.
	owner types.UID
	// executor is who has to be allowed to apply the manifest, and allowed is when
	// that was found to be so.
	executor string
	allowed  time.Time
	mends    mends
	// live is the object until it has been inspected.
	live *unstructured.Unstructured
	// waits says that the work's rules have still to be evaluated on the object.
	waits bool
	// later is how long to wait before the object is put right again, or looked at.
	later time.Duration
}

// known reports whether it is known whether the object exists.
func (o outcome) known() bool { return o.fetched == nil }

// memory remembers what became of the manifests of each work, so that nothing
// is asked or written again that has not changed. It may be lost at any time.
type memory struct {
	mu    sync.Mutex
	works map[string]map[objectKey]outcome
	// slow are the works whose rules took long when they were last evaluated.
	slow map[string]bool
	// remainders are the objects that a deleted AppliedManifestWork waits for.
	remainders map[string][]remainder
}

func newMemory() *memory {
	return &memory{works: map[string]map[objectKey]outcome{}, slow: map[string]bool{}, remainders: map[string][]remainder{}}
}

// hold remembers what a deleted AppliedManifestWork waits for, and reports
// whether that is news.
func (m *memory) hold(applied string, left []remainder) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if reflect.DeepEqual(m.remainders[applied], left) {
		return false
	}
	m.remainders[applied] = left
	if len(left) == 0 {
		delete(m.remainders, applied)
	}
	return true
}

func (m *memory) held(applied string) ([]remainder, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left, ok := m.remainders[applied]
	return left, ok
}

func (m *memory) get(work string, key objectKey) (outcome, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.works[work][key]
	return o, ok
}

// doubtRights has the rights of executors asked for again, and returns the works
// that have one.
func (m *memory) doubtRights() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name, known := range m.works {
		doubted := make(map[objectKey]outcome, len(known)) // others read the old one
		executed := false
		for key, o := range known {
			executed = executed || o.executor != ""
			o.allowed = time.Time{}
			doubted[key] = o
		}
		if executed {
			m.works[name] = doubted
			names = append(names, name)
		}
	}
	return names
}

func (m *memory) set(work string, outcomes map[objectKey]outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.works[work] = outcomes
}

func (m *memory) isSlow(work string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slow[work]
}

func (m *memory) setSlow(work string, slow bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.slow, work)
	if slow {
		m.slow[work] = true
	}
}

func (m *memory) forget(work string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.slow, work)
	delete(m.works, work)
}
