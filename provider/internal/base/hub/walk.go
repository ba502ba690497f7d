package hub

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Terraform plans twice: for the plan that it shows, and once more in the apply,
// right before each write. It configures the provider for each of the two, so a Hub
// belongs to one of them. What a Hub has read and written tells which.

// walk is what has happened in one plan or apply.
type walk struct {
	written atomic.Bool
	// read are the objects that were refreshed; true are those of another owner.
	// planned are those that this plan creates, as far as it is known.
	read, planned sync.Map

	mu sync.Mutex
	// held are the objects that works bring to clusters, by cluster and object.
	held map[[2]string][]holding
}

// holding is a work that holds an object, and the object as it has it.
type holding struct{ work, content string }

// NoteHeld notes that a work of a cluster holds an object, and returns the works of the
// cluster that were noted with another content of the same object.
func (h *Hub) NoteHeld(cluster, work, object, content string) (others []string) {
	if h == nil {
		return nil
	}
	h.walk.mu.Lock()
	defer h.walk.mu.Unlock()
	if h.walk.held == nil {
		h.walk.held = map[[2]string][]holding{}
	}
	at, mine := [2]string{cluster, object}, holding{work, content}
	kept := h.walk.held[at][:0:0]
	for _, other := range h.walk.held[at] {
		if other.work == work {
			continue // It was planned before.
		}
		kept = append(kept, other)
		if other.content != content {
			others = append(others, other.work)
		}
	}
	h.walk.held[at] = append(kept, mine)
	return others
}

type objectKey struct{ kind, namespace, name string }

func keyOf(object kube.Object, namespace, name string) objectKey {
	return objectKey{kind: kube.TypeName(object), namespace: namespace, name: name}
}

// WriteClient is Client for what is about to be written: this is an apply.
func (h *Hub) WriteClient(diags *diag.Diagnostics) *kube.Client {
	client := h.Client(diags)
	if client != nil {
		h.walk.written.Store(true)
	}
	return client
}

// HasWritten reports whether this is known to be an apply.
func (h *Hub) HasWritten() bool { return h.walk.written.Load() }

// NoteRead notes that an object was refreshed, as happens in a plan alone. foreign is
// that it was found to be another owner's.
func (h *Hub) NoteRead(object kube.Object, namespace, name string, foreign bool) {
	h.walk.read.Store(keyOf(object, namespace, name), foreign)
}

// WasRead reports whether an object was refreshed, and found to be another owner's.
func (h *Hub) WasRead(object kube.Object, namespace, name string) (read, foreign bool) {
	if h == nil {
		return false, false
	}
	value, read := h.walk.read.Load(keyOf(object, namespace, name))
	return read, value == true
}

// NotePlanned notes that an object will be created.
func (h *Hub) NotePlanned(object kube.Object, namespace, name string) {
	if h != nil {
		h.walk.planned.Store(keyOf(object, namespace, name), true)
	}
}

// IsPlanned reports whether an object is known to be created by this plan. What has not
// been planned yet is not known: resources that refer to others are planned after them.
func (h *Hub) IsPlanned(object kube.Object, namespace, name string) bool {
	if h == nil {
		return false
	}
	_, planned := h.walk.planned.Load(keyOf(object, namespace, name))
	return planned
}
