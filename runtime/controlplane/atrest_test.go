package controlplane

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

var secrets = schema.GroupResource{Resource: "secrets"}

func sealingOf(t *testing.T, key string, resources ...schema.GroupResource) *sealing {
	t.Helper()
	s, err := newSealing([]byte(key), resources)
	testkit.Must(t, err)
	return s
}

// An encrypted value is one at its own key alone.
func TestEncryptedValuesCannotBeMoved(t *testing.T) {
	as := sealingOf(t, "k", secrets).of(secrets)
	here, there := value.DefaultContext("/registry/secrets/a/x"), value.DefaultContext("/registry/secrets/a/y")
	stored, err := as.TransformToStorage(t.Context(), []byte("content"), here)
	testkit.Must(t, err)
	if strings.Contains(string(stored), "content") {
		t.Fatalf("it is stored as %q", stored)
	}
	got, stale, err := as.TransformFromStorage(t.Context(), stored, here)
	if string(got) != "content" || stale || err != nil {
		t.Errorf("at its key: %q, %v, %v", got, stale, err)
	}
	if got, _, err := as.TransformFromStorage(t.Context(), stored, there); err == nil {
		t.Errorf("at another key: %q", got)
	}
	other := sealingOf(t, "other", secrets).of(secrets)
	if got, _, err := other.TransformFromStorage(t.Context(), stored, here); err == nil {
		t.Errorf("with another key: %q", got)
	}
	for what, x := range map[string]struct {
		as    value.Transformer
		value string
		stale bool
	}{
		"not encrypted, and to be":     {as, "content", true},
		"not encrypted, and not to be": {sealingOf(t, "k").of(secrets), "content", false},
		"encrypted, and not to be":     {sealingOf(t, "k").of(secrets), string(stored), true},
	} {
		got, stale, err := x.as.TransformFromStorage(t.Context(), []byte(x.value), here)
		if string(got) != "content" || stale != x.stale || err != nil {
			t.Errorf("%s: %q, stale %v, %v", what, got, stale, err)
		}
	}
}

// Budgets count what an object has, encrypted or not, and replicas that store otherwise find
// their way back.
func TestAStoreIsSettled(t *testing.T) {
	store := newStore(t)
	works := schema.GroupResource{Group: "x.io", Resource: "works"}
	keys := []string{"/registry/x.io/works/paris/a", "/registry/x.io/works/paris/b", "/registry/secrets/paris/a"}
	const plain = `{"kind":"Work","spec":{"a":1}}`
	put := func(key string) {
		t.Helper()
		_, err := store.Put(t.Context(), key, plain)
		testkit.Must(t, err)
	}
	encrypted := func() (n int) {
		t.Helper()
		for _, key := range keys {
			answer, err := store.Get(t.Context(), key)
			testkit.Must(t, err)
			if strings.HasPrefix(string(answer.Kvs[0].Value), sealedPrefix) {
				n++
			}
		}
		return n
	}
	settle := func(s *sealing, shared, discard bool) error { return s.settle(t.Context(), store, shared, discard) }
	for _, key := range keys {
		put(key)
	}
	store.sealing = sealingOf(t, "k", works)
	testkit.Must(t, settle(store.sealing, true, false))
	if n := encrypted(); n != 2 {
		t.Errorf("%d values are encrypted, want the two works", n)
	}
	kept, err := store.Kept(t.Context(), "/registry/x.io/works/paris/")
	want := extension.Kept{Objects: 2, Bytes: 2 * int64(len(plain)), SpecBytes: 2 * 7}
	if err != nil || kept != want {
		t.Errorf("it counts %+v, %v, want %+v", kept, err, want)
	}
	put("/registry/x.io/works/paris/b") // by a replica of before
	testkit.Must(t, settle(store.sealing, false, false))
	if n := encrypted(); n != 1 {
		t.Errorf("%d values are encrypted: a hub that is alone has looked at all again", n)
	}
	testkit.Must(t, settle(store.sealing, true, false))
	if n := encrypted(); n != 2 {
		t.Errorf("%d values are encrypted: a replica has not looked at what others wrote", n)
	}
	testkit.Must(t, settle(sealingOf(t, "k", secrets), true, false))
	if n := encrypted(); n != 1 {
		t.Errorf("%d values are encrypted, want the Secret", n)
	}
	if err := settle(sealingOf(t, "other", secrets), true, false); err == nil {
		t.Error("another key is taken")
	}
	testkit.Must(t, settle(sealingOf(t, "other", secrets), true, true))
	if answer, err := store.Get(t.Context(), "/registry/secrets/paris/a"); err != nil || answer.Count != 0 {
		t.Errorf("what nobody can read is still there: %v, %v", answer, err)
	}
	if kept, err := store.Kept(t.Context(), "/registry/x.io/works/paris/"); err != nil || kept.Objects != 2 {
		t.Errorf("what is not encrypted is gone: %+v, %v", kept, err)
	}
}
