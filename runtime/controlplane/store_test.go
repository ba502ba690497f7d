package controlplane

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/etcd"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// newStore is a client of an etcd of its own.
func newStore(t *testing.T) *storeClient {
	t.Helper()
	dir := t.TempDir()
	server, err := etcd.Start(t.Context(), filepath.Join(dir, "data"), filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStoreClient(Options{}, []string{server.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		server.Stop()
	})
	return s
}

func TestKeptCountsWhatANamespaceHolds(t *testing.T) {
	s := newStore(t)
	custom := func(spec string) string { return `{"kind":"X","spec":` + spec + `,"status":{}}` }
	for key, value := range map[string]string{
		"/registry/x/paris/c": custom(`{"a":1}`), "/registry/x/paris/d": custom(`{}`), "/registry/x/paris2/a": custom(`{"b":2}`),
		"/registry/y/paris/a": "k8s\x00binary",
	} {
		if _, err := s.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if _, err := s.Put(t.Context(), fmt.Sprintf("/registry/x/paris/a%d", i), custom("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string]extension.Kept{
		"/registry/x/paris/": {
			Objects: 22, Bytes: int64(len(custom(`{"a":1}`)) + 21*len(custom("{}"))), SpecBytes: 7 + 21*2,
		},
		"/registry/y/paris/": {Objects: 1, Bytes: 10},
		"/registry/z/paris/": {},
	} {
		if got, err := s.Kept(t.Context(), prefix); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", prefix, got, err, want)
		}
	}
}

func TestAStoreGivesFreedRoomBack(t *testing.T) {
	s := newStore(t)
	big, revision := strings.Repeat("x", 1<<20), int64(0)
	for range 40 {
		answer, err := s.Put(t.Context(), "a", big)
		if err != nil {
			t.Fatal(err)
		}
		revision = answer.Header.Revision
	}
	size := func() extension.StoreSize {
		t.Helper()
		got, err := s.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	var full extension.StoreSize
	testkit.Eventually(t, func() error { // etcd writes transactions some at a time
		if full = size(); full.InUse < 40<<20 || full.File < full.InUse || full.Quota != 8<<30 {
			return fmt.Errorf("the size of the full store is %+v", full)
		}
		return nil
	})
	if err := s.reclaim(t.Context(), 0); err != nil || size().File < full.File {
		t.Errorf("a file that is in use was to get smaller: %v, %+v", err, size())
	}
	if _, err := s.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, func() error {
		_, err := s.Put(t.Context(), "b", "") // pages are free once later transactions are written
		if got := size(); err != nil || got.InUse >= full.File/2 {
			return fmt.Errorf("after the compaction the size is %+v, %w", got, err)
		}
		return nil
	})
	if err := s.reclaim(t.Context(), 1); err != nil || size().File < full.File {
		t.Errorf("a file that is small for the quota was to get smaller: %v, %+v", err, size())
	}
	if err := s.reclaim(context.Background(), 0); err != nil || size().File >= full.File/2 {
		t.Errorf("the file has %d bytes of the former %d: %v", size().File, full.File, err)
	}
}
