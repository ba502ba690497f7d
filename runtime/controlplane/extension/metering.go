package extension

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Meter decides whether what a user writes is stored. It is asked last, when an
// object has passed admission and its form in the store is known, for all kinds alike.
// It is safe for concurrent use.
type Meter interface {
	// SetStore is called once, before the first write.
	SetStore(Store)
	// Meters reports whether the user's writes are metered.
	Meters(user.Info) bool
	// Charge refuses a write by an API status, or counts it.
	Charge(context.Context, Write) error
	// Hold waits until the user may change an object of that many bytes, for which the
	// server needs many times as much memory. release is called when it has changed.
	Hold(ctx context.Context, u user.Info, bytes int) (release func(), err error)
}

// Write is an object that is about to be stored for a user.
type Write struct {
	User     user.Info
	Resource schema.GroupResource
	// Key is the object's key in the store. All objects of the same kind and
	// namespace have the part before the last slash in common.
	Key             string
	Namespace, Name string
	// Creates is whether the object is new, and Deletes whether the write is the
	// beginning of its deletion.
	Creates, Deletes bool
	// Size is what the object takes in the store, in bytes, and Before what it took.
	// Before is 0 for a new one.
	Size, Before int
}

// Store is what a Meter can learn about the store. It is safe for concurrent use.
type Store interface {
	// Size is how full the store is.
	Size(context.Context) (StoreSize, error)
	// Kept counts the objects whose keys begin with prefix.
	Kept(ctx context.Context, prefix string) (Kept, error)
}

// Kept is what a part of the store holds.
type Kept struct {
	Objects int
	// Bytes are those of whole objects, and SpecBytes those of their specs. Only custom
	// resources have specs here.
	Bytes, SpecBytes int64
}

// StoreSize is how full the store is, in bytes.
type StoreSize struct {
	// InUse is what objects and their recent versions take. File is what the store
	// takes on the disk: it keeps the room of what was deleted, for what comes next.
	InUse int64
	File  int64
	// Quota is how large the file may grow before the store refuses all writes.
	Quota int64
}
