package extension

import "context"

// Lasting is a request that may go on when its handlers have returned: a watch, whose
// events are written outside of the handlers that have let it in. Who keeps something for as
// long as the request lasts gives it back in AtEnd. It is safe for concurrent use.
type Lasting interface {
	// End ends the request, and the context that its handlers have.
	End()
	// AtEnd calls f once the request has ended. A handler calls it when the next one has
	// returned: where the request does not go on, f is called at once.
	AtEnd(f func())
}

type lastingKey struct{}

// WithLasting is a context of the request l, which End ends.
func WithLasting(ctx context.Context, l Lasting) context.Context {
	return context.WithValue(ctx, lastingKey{}, l)
}

// LastingOf is the request of a context, and the context that it ends. A request that is
// not known to last ends with its handlers. The caller calls AtEnd, or End.
func LastingOf(ctx context.Context) (context.Context, Lasting) {
	if l, ok := ctx.Value(lastingKey{}).(Lasting); ok {
		return ctx, l
	}
	ctx, cancel := context.WithCancel(ctx)
	return ctx, handled(cancel)
}

// handled is a request that ends with its handlers.
type handled context.CancelFunc

// End implements Lasting.
func (h handled) End() { h() }

// AtEnd implements Lasting.
func (h handled) AtEnd(f func()) {
	f()
	h()
}
