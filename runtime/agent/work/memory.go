package work

import (
	"crypto/sha256"
	"sync"

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
}

// known reports whether it is known whether the object exists.
func (o outcome) known() bool { return o.fetched == nil }

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
