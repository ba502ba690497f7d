package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
)

// engine is a container engine in which clusters are only names.
type engine struct {
	clusters  []string
	createErr error
}

func (e *engine) Create(name string, _ ...cluster.CreateOption) error {
	if e.createErr == nil {
		e.clusters = append(e.clusters, name)
	}
	return e.createErr
}

func (e *engine) Delete(name, _ string) error {
	e.clusters = slices.DeleteFunc(e.clusters, func(c string) bool { return c == name })
	return nil
}

func (e *engine) List() ([]string, error) { return e.clusters, nil }

func (e *engine) KubeConfig(name string, _ bool) (string, error) {
	if !slices.Contains(e.clusters, name) {
		return "", errors.New("no such cluster")
	}
	content, err := kubeconfig.Config{Cluster: name, User: "admin", Server: "https://127.0.0.1:12345", Token: "t"}.YAML()
	return string(content), err
}

func TestKindClusterIsMadeOnceAndRemoved(t *testing.T) {
	dir, e := t.TempDir(), &engine{clusters: []string{"somebody-elses"}}
	k := newKind(e, dir)
	for _, found := range []bool{false, true} {
		m, err := k.Start(t.Context(), "cluster1")
		if err != nil {
			t.Fatal(err)
		}
		want := Member{Name: "cluster1", URL: "https://127.0.0.1:12345", Kubeconfig: filepath.Join(dir, "cluster1", "admin.kubeconfig"), Found: found}
		if m != want {
			t.Errorf("got %+v, want %+v", m, want)
		}
		if _, err := os.Stat(m.Kubeconfig); err != nil {
			t.Error(err)
		}
	}
	if names, err := k.List(t.Context()); err != nil || !slices.Equal(names, []string{"cluster1"}) {
		t.Errorf("got %q, %v", names, err)
	}
	for range 2 { // stopping it again is no error
		if err := k.Stop(t.Context(), "cluster1"); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(e.clusters, []string{"somebody-elses"}) {
		t.Errorf("left: %q", e.clusters)
	}
	if _, err := os.Stat(filepath.Join(dir, "cluster1", "admin.kubeconfig")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its kubeconfig: %v", err)
	}
}

func TestKindClustersOfTwoFleetsAreApart(t *testing.T) {
	a, b := newKind(&engine{}, "/a").ClusterName("cluster1"), newKind(&engine{}, "/b").ClusterName("cluster1")
	if a == b || !strings.HasSuffix(a, "-cluster1") {
		t.Errorf("got %s and %s", a, b)
	}
}

func TestKindFailureSaysWhatTheEngineSaid(t *testing.T) {
	run := &kindexec.RunError{Command: []string{"docker"}, Output: []byte("no such\nimage"), Inner: errors.New("exit status 1")}
	for _, tc := range []struct {
		name        string
		err         error
		unavailable bool
	}{
		{"a broken cluster", fmt.Errorf("kubeadm: %w", run), false},
		{"no image", fmt.Errorf("failed to pull image %q: %w", "x", run), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := newKind(&engine{createErr: tc.err}, t.TempDir()).Start(t.Context(), "cluster1")
			var unavailable *KindUnavailableError
			if err == nil || errors.As(err, &unavailable) != tc.unavailable {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), "no such image") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q", err)
			}
		})
	}
}

func TestKindConfigurationThatIsNotThereIsExplained(t *testing.T) {
	t.Setenv(KindConfigEnv, "/nowhere/kind.yaml")
	_, err := newKind(&engine{}, t.TempDir()).Start(t.Context(), "cluster1")
	if err == nil || !strings.Contains(err.Error(), KindConfigEnv) || !strings.Contains(err.Error(), "/nowhere/kind.yaml") {
		t.Errorf("got %v", err)
	}
}
