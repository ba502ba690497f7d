package etcd

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func startMember(t *testing.T) *Server {
	t.Helper()
	dir := t.TempDir()
	s, err := Start(t.Context(), filepath.Join(dir, "data"), filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a client without a connection writes one with a connection reads, and the other way
// round; a watch of either sees both.
func TestClientsWithoutAConnection(t *testing.T) {
	s := startMember(t)
	defer s.Stop()
	direct, dialled := s.Client(), client(t, s)
	defer func() { _ = dialled.Close() }()
	for name, c := range map[string]struct{ writes, reads *clientv3.Client }{
		"by a call": {direct, dialled}, "by a connection": {dialled, direct},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		news := c.reads.Watch(ctx, name, clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
		if w := <-news; !w.Created {
			t.Fatalf("%s: the watch began with %+v", name, w)
		}
		lease, err := c.writes.Grant(ctx, 3600)
		if err != nil {
			t.Fatal(err)
		}
		created, err := c.writes.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(name), "=", 0)).
			Then(clientv3.OpPut(name, "a", clientv3.WithLease(lease.ID))).Commit()
		if err != nil || !created.Succeeded {
			t.Fatalf("%s: got %+v, %v", name, created, err)
		}
		again, err := c.writes.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(name), "=", 0)).
			Then(clientv3.OpPut(name, "b")).Else(clientv3.OpGet(name)).Commit()
		if err != nil || again.Succeeded || string(again.Responses[0].GetResponseRange().Kvs[0].Value) != "a" {
			t.Errorf("%s: a second creation got %+v, %v", name, again, err)
		}
		if _, err := c.writes.Put(ctx, name, "c"); err != nil {
			t.Fatal(err)
		}
		got, err := c.reads.Get(ctx, name)
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "c" {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
		var values []string
		for len(values) < 2 {
			w, ok := <-news
			if !ok || w.Err() != nil {
				t.Fatalf("%s: the watch ended: %v", name, w.Err())
			}
			for _, e := range w.Events {
				values = append(values, string(e.Kv.Value))
			}
		}
		if values[0] != "a" || values[1] != "c" {
			t.Errorf("%s: the watch saw %q", name, values)
		}
		cancel()
	}
}

// A member that stops while clients read, write and watch ends their watches, answers what
// it has begun, and refuses what comes later: nothing reads from a store that is closed.
func TestAMemberStopsBelowItsClients(t *testing.T) {
	s := startMember(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	refused := func(err error) bool {
		return errors.Is(err, rpctypes.ErrGRPCStopped) || errors.Is(rpctypes.Error(err), rpctypes.ErrStopped) ||
			errors.Is(err, context.Canceled)
	}
	var busy sync.WaitGroup
	begun := make(chan struct{}, 100)
	for range 4 {
		c := s.Client()
		busy.Go(func() {
			for n := 0; ; n++ {
				_, err := c.Put(ctx, "k", "v")
				if err == nil {
					_, err = c.Get(ctx, "k", clientv3.WithRev(1))
				}
				if err != nil && !errors.Is(err, rpctypes.ErrCompacted) && !errors.Is(err, rpctypes.ErrFutureRev) {
					if !refused(err) {
						t.Errorf("a request of a member that stops: %v", err)
					}
					return
				}
				if n == 3 {
					begun <- struct{}{}
				}
			}
		})
		busy.Go(func() {
			for w := range c.Watch(ctx, "k", clientv3.WithPrevKV()) {
				if err := w.Err(); err != nil && !refused(err) {
					t.Errorf("a watch of a member that stops: %v", err)
				}
			}
		})
	}
	late := s.Client()
	for range 4 {
		<-begun
	}
	s.Stop()
	busy.Wait()
	if ctx.Err() != nil {
		t.Fatal("the watches or the requests did not end")
	}
	if _, err := late.Get(ctx, "k"); !refused(err) {
		t.Errorf("a request after the end: %v", err)
	}
	if w, ok := <-late.Watch(ctx, "k"); ok && w.Err() == nil {
		t.Errorf("a watch after the end: %+v", w)
	}
}
