package pki

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// memory is a shared value in memory.
type memory struct {
	value   []byte
	version int64
	used    bool   // whether something else is kept, too
	before  func() // called before a write
}

func (m *memory) Empty(context.Context) (bool, error)         { return !m.used, nil }
func (m *memory) Read(context.Context) ([]byte, int64, error) { return m.value, m.version, nil }
func (m *memory) Write(_ context.Context, v []byte, of int64) (bool, error) {
	if before := m.before; before != nil {
		m.before = nil
		before()
	}
	if of != m.version {
		return false, nil
	}
	m.value, m.version = v, m.version+1
	return true, nil
}

var secret = []byte(strings.Repeat("s", MinSecret))

func share(t *testing.T, dir string, with *memory) bundle {
	t.Helper()
	if err := Share(context.Background(), dir, "hub-ca", secret, with, now); err != nil {
		t.Fatal(err)
	}
	b, err := readBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantSame(t *testing.T, what string, a, b bundle) {
	t.Helper()
	if !a.equal(b) {
		t.Errorf("%s: the folders have different keys", what)
	}
}

func TestReplicasGetTheKeysOfTheFirst(t *testing.T) {
	with, first, second := &memory{}, t.TempDir(), t.TempDir()
	a := share(t, first, with)
	with.used = true
	wantSame(t, "the second", a, share(t, second, with))
	if with.version != 1 {
		t.Errorf("the keys were written %d times, want once", with.version)
	}
	for name, content := range a {
		if len(content) > 0 && bytes.Contains(with.value, content) {
			t.Errorf("%s is stored as it is", name)
		}
	}
	info, err := os.Stat(filepath.Join(second, "ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("ca.key: %v, %v, want it for its owner alone", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(first, "made-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestAHubThatHasKeysSharesThem(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadOrCreateAuthority(dir, "hub-ca", now); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateKey(filepath.Join(dir, ServiceAccountKey)); err != nil {
		t.Fatal(err)
	}
	before, err := readBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	with := &memory{used: true}
	wantSame(t, "the first", before, share(t, dir, with))
	wantSame(t, "the second", before, share(t, t.TempDir(), with))
}

func TestTwoFirstReplicasAgree(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	with := &memory{}
	var b bundle
	with.before = func() { b = share(t, second, with) }
	wantSame(t, "both", share(t, first, with), b)
}

func TestReplicasFollowAReplacedAuthority(t *testing.T) {
	with, first, second, late := &memory{}, t.TempDir(), t.TempDir(), t.TempDir()
	old := share(t, first, with)
	share(t, second, with)
	share(t, late, with)
	if _, err := Replace(second, "hub-ca", now); err != nil {
		t.Fatal(err)
	}
	replaced := share(t, second, with)
	if replaced.equal(old) {
		t.Fatal("the replaced authority is the old one")
	}
	wantSame(t, "after a replacement", replaced, share(t, first, with))
	if err := Retire(first); err != nil {
		t.Fatal(err)
	}
	retired := share(t, first, with)
	if len(retired[previousFile]) > 0 {
		t.Error("the old authority is trusted after it was retired")
	}
	wantSame(t, "after a retirement", retired, share(t, second, with))
	if err := Share(context.Background(), late, "hub-ca", secret, with, now); !errors.Is(err, ErrOtherKeys) {
		t.Errorf("a replica that has missed both: got %v, want ErrOtherKeys", err)
	}
}

func TestKeysThatWereBeingWrittenAreWrittenAgain(t *testing.T) {
	with, dir := &memory{}, t.TempDir()
	a := share(t, t.TempDir(), with)
	half := bundle{takingFile: nil, "ca.key": []byte("half"), ServiceAccountKey: a[ServiceAccountKey]}
	for name, content := range half {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "made-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "after a crash", a, share(t, dir, with))
	if left, _ := filepath.Glob(filepath.Join(dir, "made-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestKeysThatAreNotTaken(t *testing.T) {
	taken := &memory{}
	share(t, t.TempDir(), taken)
	changed := bytes.Clone(taken.value)
	changed[len(changed)/2] ^= 1
	for _, x := range []struct {
		name   string
		secret []byte
		with   memory
		dir    func(dir string)
		want   error
	}{
		{"another secret", []byte(strings.Repeat("x", MinSecret)), *taken, nil, ErrWrongSecret},
		{"changed by somebody", secret, memory{value: changed, version: 1}, nil, ErrWrongSecret},
		{"cut off", secret, memory{value: changed[:3], version: 1}, nil, ErrWrongSecret},
		{"other keys", secret, *taken, func(dir string) { share(t, dir, &memory{}) }, ErrOtherKeys},
		{"not shared yet", secret, memory{used: true}, nil, ErrNotShared},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			if x.dir != nil {
				x.dir(dir)
			}
			before, _ := readBundle(dir)
			if err := Share(context.Background(), dir, "hub-ca", x.secret, &x.with, now); !errors.Is(err, x.want) {
				t.Errorf("got %v, want %v", err, x.want)
			}
			after, err := readBundle(dir)
			if err != nil || !after.equal(before) {
				t.Errorf("the folder has changed: %v", err)
			}
			if x.with.version > 1 {
				t.Error("the shared keys were written")
			}
		})
	}
}
