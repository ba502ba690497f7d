package budget

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// freeChange is the size up to which objects are changed without a turn, in bytes.
	freeChange = 32 * kib
	// changed is how many bytes of objects an owner changes at a time. A change takes
	// up to a hundred times the object's size in memory, however small the patch is.
	changed = 256 * kib
)

// changes are the objects that an owner changes at present.
type changes struct {
	turn  *semaphore.Weighted
	users int // protected by Budgets.mu
}

// Hold is part of extension.Meter.
func (b *Budgets) Hold(ctx context.Context, u user.Info, bytes int) (release func(), err error) {
	name, limited := b.owners.Of(u)
	if !limited || bytes <= freeChange {
		return func() {}, nil
	}
	size := int64(min(bytes, changed))
	b.mu.Lock()
	own := b.changes[name]
	if own == nil {
		own = &changes{turn: semaphore.NewWeighted(changed)}
		b.changes[name] = own
	}
	own.users++
	b.mu.Unlock()
	leave := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(b.changes, name)
		}
	}
	if err := own.turn.Acquire(ctx, size); err != nil {
		leave()
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%s changes too many large objects at a time: try again", name), 1)
	}
	return func() {
		own.turn.Release(size)
		leave()
	}, nil
}
