package kube

import (
	"context"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	request, err := c.request(page, http.MethodGet, s.namespace, "")
	if err != nil {
		return nil, 0, err
	}
	request = request.Param("limit", strconv.Itoa(limit))
	if continuation != "" {
		request = request.Param("continue", continuation)
	}
	result := request.Do(ctx)
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
