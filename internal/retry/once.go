package retry

import "sync"

// Once keeps what fails in the same way at each attempt from being logged at
// each attempt. The zero value is ready, and it is safe for concurrent use.
type Once struct{ each OnceEach[struct{}] }

// Changed reports whether text differs from that of the call before; so does the
// first after Clear.
func (o *Once) Changed(text string) bool { return o.each.Changed(struct{}{}, text) }

// Clear forgets the text, as after a success, and reports whether there was one.
func (o *Once) Clear() bool { return o.each.Clear(struct{}{}) }

// OnceEach is a Once for each of several keys.
type OnceEach[K comparable] struct {
	mu    sync.Mutex
	texts map[K]string
}

// Changed reports whether text differs from that of the call before for key; so
// does the first after Clear.
func (o *OnceEach[K]) Changed(key K, text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, ok := o.texts[key]; ok && before == text {
		return false
	}
	if o.texts == nil {
		o.texts = map[K]string{}
	}
	o.texts[key] = text
	return true
}

// Clear forgets the text of key, as after a success, and reports whether there
// was one.
func (o *OnceEach[K]) Clear(key K) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.texts[key]
	delete(o.texts, key)
	return known
}
