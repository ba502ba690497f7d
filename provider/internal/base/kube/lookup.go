package kube

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

const (
	// lookupsInNamespace and lookupsInAll are how many objects of a kind are read one
	// by one before they are listed: those of one namespace, or without one, and those
	// of all namespaces.
	lookupsInNamespace = 16
	lookupsInAll       = 64
	// lookupsPerItem is how many of the objects that a server has cost as much to list
	// as one does to read.
	lookupsPerItem = 8
	// lookupFresh is how long an object that was listed answers a lookup.
	lookupFresh = 20 * time.Second
	// lookupPage is how many objects are listed at a time at most, and lookupPageSize
	// how many bytes a page may have. Larger objects, so that a page would hold fewer
	// than lookupPageLeast, are read one by one.
	lookupPage      = 500
	lookupPageLeast = 50
	lookupPageSize  = 4 << 20
	// lookupMemory bounds what is kept, in bytes as they were sent.
	lookupMemory = 64 << 20
)

// Lookup is Get for callers that read many objects, such as a plan. When many of a
// kind are looked up they are listed, and the later ones answered from that. What it
// finds may be some seconds old, but never older than a write by this client; who
// writes on the strength of it has to make the write depend on the resource version.
// That an object does not exist is always the server's answer of the moment.
func (c *Client) Lookup(ctx context.Context, obj Object, namespace, name string) error {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return err
	}
	if gvk.GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		return c.Get(ctx, obj, namespace, name) // Others' secrets are nobody's business.
	}
	if c.lookups.answer(obj, gvk, namespace, name) {
		return nil
	}
	if scope, lists := c.lookups.due(gvk, namespace); scope != nil {
		c.lookups.list(ctx, c, scope, lists)
		if c.lookups.answer(obj, gvk, namespace, name) {
			return nil
		}
	}
	request, err := c.request(obj, http.MethodGet, namespace, name)
	if err != nil {
		return err
	}
	result := request.Do(ctx)
	if raw, err := result.Raw(); err == nil {
		c.lookups.noteSize(gvk, len(raw))
	}
	return decodeFresh(result, obj)
}

// lookups are the objects that were listed, and how many were looked up.
type lookups struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	kinds  map[schema.GroupVersionKind]*kindLookups
	kept   int // bytes
	writes int // counts them, to tell a list from before a write from one after it
}

// kindLookups are those of a kind.
type kindLookups struct {
	// objects are those that were listed and not asked for yet.
	objects map[lookupKey]listed
	// written says which write of the client's was the last one to an object.
	written map[lookupKey]int
	// scopes are the namespaces, and "" for all of them or for kinds without.
	scopes map[string]*lookupScope
	// read and bytes are of the objects that were read one by one.
	read, bytes int
}

type lookupKey struct{ namespace, name string }

// listed is an object that was listed, with its size as it was sent.
type listed struct {
	object Object
	at     time.Time
	size   int
}

// lookupScope is a part of a kind's objects that can be listed.
type lookupScope struct {
	gvk       schema.GroupVersionKind
	namespace string
	// listing is held while they are listed.
	listing sync.Mutex
	// missed is how many lookups were not answered since they were listed last.
	missed int
	// total is how many there are, as far as it is known.
	total int
	// lists is how often they were listed, and busy that they are just now.
	lists int
	busy  bool
	// refused says that they can't be listed, say for want of rights.
	refused bool
}

func newLookups(clk clock.PassiveClock) *lookups {
	return &lookups{clock: clk, kinds: map[schema.GroupVersionKind]*kindLookups{}}
}

// kind is what is known of a kind. The caller holds the lock.
func (l *lookups) kind(gvk schema.GroupVersionKind) *kindLookups {
	k := l.kinds[gvk]
	if k == nil {
		k = &kindLookups{objects: map[lookupKey]listed{}, written: map[lookupKey]int{},
			scopes: map[string]*lookupScope{}}
		l.kinds[gvk] = k
	}
	return k
}

// answer hands out an object that was listed, once.
func (l *lookups) answer(obj Object, gvk schema.GroupVersionKind, namespace, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, key := l.kind(gvk), lookupKey{namespace, name}
	found, ok := k.objects[key]
	if !ok {
		return false
	}
	l.drop(k, key)
	if l.clock.Since(found.at) > lookupFresh {
		return false
	}
	return Assign(obj, found.object) == nil
}

// drop forgets an object. The caller holds the lock.
func (l *lookups) drop(k *kindLookups, key lookupKey) {
	l.kept -= k.objects[key].size
	delete(k.objects, key)
}

// due counts a lookup that was not answered, and returns what is worth listing, or is
// being listed; nil is nothing. lists is how often it was listed before.
func (l *lookups) due(gvk schema.GroupVersionKind, namespace string) (s *lookupScope, lists int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kind(gvk)
	worth := func(s *lookupScope, first int) bool {
		s.missed++
		return s.busy || s.missed > max(first, s.total/lookupsPerItem) && !s.refused && k.page() >= lookupPageLeast
	}
	own := k.scope(gvk, namespace)
	if worth(own, lookupsInNamespace) {
		return own, own.lists
	}
	if all := k.scope(gvk, ""); namespace != "" && worth(all, lookupsInAll) {
		return all, all.lists
	}
	return nil, 0
}

// scope is a part of the objects. The caller holds the lock.
func (k *kindLookups) scope(gvk schema.GroupVersionKind, namespace string) *lookupScope {
	s := k.scopes[namespace]
	if s == nil {
		s = &lookupScope{gvk: gvk, namespace: namespace}
		k.scopes[namespace] = s
	}
	return s
}

// page is how many of the objects fit into a page, by the size of those seen. The
// caller holds the lock.
func (k *kindLookups) page() int {
	if k.read == 0 {
		return lookupPage
	}
	return min(lookupPage, lookupPageSize/max(1, k.bytes/k.read))
}

// noteSize notes the size of an object that was read.
func (l *lookups) noteSize(gvk schema.GroupVersionKind, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kind(gvk)
	k.read++
	k.bytes += bytes
}

// forget is for an object that the client has written. It is called when the server
// has answered.
func (c *Client) forget(obj Object, namespace, name string) {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return
	}
	l := c.lookups
	l.mu.Lock()
	defer l.mu.Unlock()
	k, key := l.kind(gvk), lookupKey{namespace, name}
	l.drop(k, key)
	l.writes++
	k.written[key] = l.writes
}

// list lists what is worth it, unless somebody has since lists was read: the first
// page, and the others too once enough was looked up for them to pay. Those that come
// meanwhile wait for it. Its failure is nobody's: the objects are then read one by one.
func (l *lookups) list(ctx context.Context, client *Client, s *lookupScope, lists int) {
	l.mu.Lock()
	if s.lists == lists {
		s.busy = true
	}
	l.mu.Unlock()
	s.listing.Lock()
	defer s.listing.Unlock()
	l.mu.Lock()
	if s.lists != lists {
		l.mu.Unlock()
		return
	}
	all, limit, before := s.lists > 0, l.kind(s.gvk).page(), l.writes
	s.total = 0
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.busy, s.missed = false, 0
		s.lists++
	}()

	for continuation := ""; ; {
		page, size, err := client.lookupPage(ctx, s, limit, continuation)
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			s.refused = ctx.Err() == nil
			return
		}
		room := l.keep(page, s, size, before)
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return
		}
		continuation = accessor.GetContinue()
		l.mu.Lock()
		s.total += meta.LenList(page)
		if remaining := accessor.GetRemainingItemCount(); remaining != nil && !all {
			s.total += int(*remaining)
		}
		l.mu.Unlock()
		if continuation == "" || !room || !all {
			return
		}
	}
}

// lookupPage reads a page of a scope, and its size in bytes.
func (c *Client) lookupPage(
	ctx context.Context, s *lookupScope, limit int, continuation string,
) (runtime.Object, int, error) {
	page, err := c.scheme.New(listKind(s.gvk))
	if err != nil {
		return nil, 0, err
	}
	result, err := c.page(ctx, page, ListOptions{Namespace: s.namespace}, limit, continuation)
	if err != nil {
		return nil, 0, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, 0, err
	}
	return page, len(raw), result.Into(page)
}

func listKind(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	return gvk.GroupVersion().WithKind(gvk.Kind + "List")
}

// keep keeps the objects of a page, but those that the client has written since the
// list began, and reports whether there is room for more.
func (l *lookups) keep(page runtime.Object, s *lookupScope, size, before int) (room bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, now := l.kind(s.gvk), l.clock.Now()
	each := size / max(1, meta.LenList(page))
	err := meta.EachListItem(page, func(item runtime.Object) error {
		object, ok := item.(Object)
		if !ok || l.kept+each > lookupMemory {
			return errEnough
		}
		key := lookupKey{object.GetNamespace(), object.GetName()}
		if k.written[key] > before {
			return nil
		}
		l.drop(k, key)
		k.objects[key] = listed{object: object, at: now, size: each}
		l.kept += each
		return nil
	})
	return err == nil
}
