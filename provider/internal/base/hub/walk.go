package hub

import (
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Terraform plans twice: for the plan that it shows, and once more in the apply,
// right before each write. It configures the provider for each of the two, so a Hub
// belongs to one of them. What a Hub has read and written tells which.

// walk is what has happened in one plan or apply.
type walk struct {
	mu      sync.Mutex
	written bool
	// read are the objects that were refreshed; true are those of another owner.
	read map[objectKey]bool
	// planned are the objects that this plan creates, as far as it is known.
	planned map[objectKey]bool
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
	if client == nil {
		return nil
	}
	h.walk.mu.Lock()
	defer h.walk.mu.Unlock()
	h.walk.written = true
	return client
}

// HasWritten reports whether this is known to be an apply.
func (h *Hub) HasWritten() bool {
	h.walk.mu.Lock()
	defer h.walk.mu.Unlock()
	return h.walk.written
}

// NoteRead notes that an object was refreshed, as happens in a plan alone. foreign is
// that it was found to be another owner's.
func (h *Hub) NoteRead(object kube.Object, namespace, name string, foreign bool) {
	h.walk.mu.Lock()
	defer h.walk.mu.Unlock()
	if h.walk.read == nil {
		h.walk.read = map[objectKey]bool{}
	}
	h.walk.read[keyOf(object, namespace, name)] = foreign
}

// WasRead reports whether an object was refreshed, and found to be another owner's.
func (h *Hub) WasRead(object kube.Object, namespace, name string) (read, foreign bool) {
	if h == nil {
		return false, false
	}
	h.walk.mu.Lock()
	defer h.walk.mu.Unlock()
	foreign, read = h.walk.read[keyOf(object, namespace, name)]
	return read, foreign
}

// NotePlanned notes that an object will be created.
func (h *Hub) NotePlanned(object kube.Object, namespace, name string) {
	if h == nil {
		return
	}
	h.walk.mu.Lock()
	defer h.walk.mu.Unlock()
	if h.walk.planned == nil {
		h.walk.planned = map[objectKey]bool{}
	}
	h.walk.planned[keyOf(object, namespace, name)] = true
}

// IsPlanned reports whether an object is known to be created by this plan. What has not
// been planned yet is not known: resources that refer to others are planned after them.
func (h *Hub) IsPlanned(object kube.Object, namespace, name string) bool {
	if h == nil {
		return false
	}
	h.walk.mu.Lock()
	defer h.walk.mu.Unlock()
	return h.walk.planned[keyOf(object, namespace, name)]
}
