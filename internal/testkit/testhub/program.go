package testhub

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// ProgramEnv is the environment variable with the path of a muster that is built
// already.
const ProgramEnv = "MUSTER_BIN"

// module is the module that has the program.
const module = "github.com/muster-fleet/terraform-provider-muster"

// Builder builds the program when it is first asked for.
type Builder struct {
	// Installed takes a muster on the PATH before one is built, and keeps what is
	// built in the user's cache. It is for tests of other modules: those of this one
	// test what is in the tree, and leave nothing behind.
	Installed bool

	once sync.Once
	path string
	err  error
}

// Path is where the program is. dir is a folder for it, unless Installed is set.
func (b *Builder) Path(dir string) (string, error) {
	b.once.Do(func() { b.path, b.err = b.find(dir) })
	return b.path, b.err
}

func (b *Builder) find(dir string) (string, error) {
	if path := os.Getenv(ProgramEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w; build it with make build, or unset the variable", ProgramEnv, err)
		}
		return filepath.Abs(path)
	}
	if b.Installed {
		if path, err := exec.LookPath("muster"); err == nil {
			return filepath.Abs(path)
		}
	}
	source, err := findSource()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "muster")
	if b.Installed {
		if path, err = source.cached(); err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil && source.released() {
			return path, nil
		}
	}
	return path, source.build(path)
}

// source is the module's code, as go list describes it.
type source struct {
	Version, Dir string
	Main         bool
	Replace      *source
}

// findSource finds the code in the module of the test, or among what that requires.
func findSource() (source, error) {
	var out, problems bytes.Buffer
	list := exec.Command("go", "list", "-m", "-json", module)
	list.Stdout, list.Stderr = &out, &problems
	var s source
	err := list.Run()
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &s)
	}
	if err == nil && s.Replace != nil {
		s.Version, s.Dir = s.Replace.Version, s.Replace.Dir
	}
	if err == nil && s.Dir == "" {
		err = errors.New("its code is not there; run go mod download")
	}
	if err != nil {
		return source{}, fmt.Errorf("find the program muster: it is neither in %s nor on the PATH, and can't be built: %s: %w: %s"+
			"install it, or name it in %[1]s", ProgramEnv, module, err, problems.Bytes())
	}
	return s, nil
}

// released reports whether the code has a version and never changes.
func (s source) released() bool { return !s.Main && s.Version != "" }

// cached is where the program of a version is kept.
func (s source) cached() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder to keep the program muster in: %w; name it in %s", err, ProgramEnv)
	}
	version := s.Version
	if !s.released() {
		version = fmt.Sprintf("source-%x", sha256.Sum256([]byte(s.Dir)))[:20]
	}
	dir := filepath.Join(cache, "terraform-provider-muster", version)
	return filepath.Join(dir, "muster"), os.MkdirAll(dir, 0o750)
}

// build builds the program at path. Others that build it at the same time do no harm.
func (s source) build(path string) error {
	building, err := os.CreateTemp(filepath.Dir(path), "building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(building.Name()) }()
	_ = building.Close()
	build := exec.Command("go", "build", "-C", s.Dir, "-mod=readonly", "-ldflags", "-s -w", "-o", building.Name(), "./runtime/cmd/muster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program muster: %w\n%s\ninstall it, or name it in %s", err, out, ProgramEnv)
	}
	return os.Rename(building.Name(), path)
}
