package work

import (
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// outcome is what became of one manifest.
type outcome struct {
	hash [sha256.Size]byte
	// resourceVersion and uid are those of the object; empty when there is none.
	resourceVersion string
	uid             types.UID
	applied         error // why the manifest could not be applied
	fetched         error // why the object could not be read
	exists          bool
	feedback        feedback
	// owner is the AppliedManifestWork that the object was given.
	owner types.UID
	// executor is who was allowed to apply the manifest, and allowed is when that
	// was asked.
	executor string
	allowed  time.Time
	mends    mends
	// later is how long to wait before the object is put right again.
	later time.Duration
}

// known reports whether it is known whether the object exists.
func (o outcome) known() bool { return o.fetched == nil }

// see notes what is in the cluster, which may be nothing.
func (o *outcome) see(m *manifest, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	o.exists, o.uid, o.resourceVersion = true, live.GetUID(), live.GetResourceVersion()
	o.feedback = readFeedback(m.feedback, live)
}

// memory remembers what became of the manifests of each work, so that nothing
// is asked or written again that has not changed. It may be lost at any time.
type memory struct {
	mu    sync.Mutex
	works map[string]map[objectKey]outcome
}

func newMemory() *memory { return &memory{works: map[string]map[objectKey]outcome{}} }

func (m *memory) get(work string, key objectKey) (outcome, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.works[work][key]
	return o, ok
}

func (m *memory) set(work string, outcomes map[objectKey]outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.works[work] = outcomes
}

func (m *memory) forget(work string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.works, work)
}
