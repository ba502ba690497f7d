package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// kubeconfigOf asks the hub as jo for the kubeconfig of the cloud made.
func kubeconfigOf(t testing.TB) (code int, header http.Header, body []byte) {
	t.Helper()
	return kubeconfigBy(t, hub.config(jo), "made", jo)
}

// kubeconfigBy asks the hub for the kubeconfig of a user of a cloud.
func kubeconfigBy(t testing.TB, config *rest.Config, cloud, user string) (code int, header http.Header, body []byte) {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	testkit.Must(t, err)
	path := "/apis/muster-fleet.io/v1alpha1/namespaces/" + tenant + "/logicalclouds/" + cloud + "/kubeconfig?user=" + url.QueryEscape(user)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, http.NoBody)
	testkit.Must(t, err)
	answer, err := c.Do(r)
	testkit.Must(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err = io.ReadAll(answer.Body)
	testkit.Must(t, err)
	return answer.StatusCode, answer.Header, body
}

// waitsFor waits until one cluster of some is missing in the kubeconfig, for a
// reason.
func waitsFor(t testing.TB, selected int, want string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		code, header, body := kubeconfigOf(t)
		var pending struct {
			Kind            string
			Selected, Ready int
			Missing         []struct{ Name, Reason string }
		}
		if err := json.Unmarshal(body, &pending); err != nil || code != http.StatusAccepted {
			return fmt.Errorf("the hub answers %d %s, want %s to be missing (%w)", code, body, want, err)
		}
		if header.Get("Retry-After") == "" || pending.Kind != "KubeconfigPending" {
			t.Fatalf("the hub does not say when to ask again: %v %s", header, body)
		}
		if len(pending.Missing) != 1 || pending.Missing[0].Name+":"+pending.Missing[0].Reason != want || pending.Selected != selected || pending.Ready != selected-1 {
			return fmt.Errorf("the hub answers %s, want %s to be missing", body, want)
		}
		return nil
	})
}

// handed is a kubeconfig that the hub has handed out, and what is in it for each
// cluster.
type handed struct {
	file    string
	configs map[string]*rest.Config
}

// handedOut waits until the hub hands out the kubeconfig, with these clusters in it.
func handedOut(t testing.TB, members ...*member) handed {
	t.Helper()
	var names []string
	for _, m := range members {
		names = append(names, jo+"@"+m.name)
	}
	slices.Sort(names)
	out := handed{filepath.Join(t.TempDir(), "made.kubeconfig"), map[string]*rest.Config{}}
	var text []byte
	testkit.Eventually(t, func() error {
		code, _, body := kubeconfigOf(t)
		if code != http.StatusOK {
			return fmt.Errorf("the hub answers %d %s", code, body)
		}
		config, err := clientcmd.Load(body)
		testkit.Must(t, err)
		var got []string
		for name := range config.Contexts {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, names) {
			return fmt.Errorf("the kubeconfig has %v, want %v", got, names)
		}
		text = body
		return nil
	})
	if _, _, again := kubeconfigOf(t); string(again) != string(text) {
		t.Error("the hub hands out another kubeconfig when it is asked again")
	}
	testkit.Must(t, os.WriteFile(out.file, text, 0o600))
	for _, m := range members {
		var err error
		out.configs[m.name], err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: out.file},
			&clientcmd.ConfigOverrides{CurrentContext: jo + "@" + m.name}).ClientConfig()
		testkit.Must(t, err)
	}
	return out
}

// ownKubeconfig is what `muster access kubeconfig` writes for jo and the cloud prod.
func ownKubeconfig(t *testing.T, members ...*member) string {
	t.Helper()
	dir := t.TempDir()
	toHub, file := filepath.Join(dir, "hub.kubeconfig"), filepath.Join(dir, "own.kubeconfig")
	config, err := clientcmd.LoadFromFile(hub.kubeconfig)
	testkit.Must(t, err)
	for _, who := range config.AuthInfos {
		who.Impersonate = jo
	}
	testkit.Must(t, clientcmd.WriteToFile(*config, toHub))
	args := []string{"access", "kubeconfig", "--kubeconfig", toHub, "--cloud", tenant + "/prod", "--output", file}
	for _, m := range members {
		args = append(args, "--cluster", m.name)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("muster access kubeconfig: %v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	for _, secret := range []string{"client-key-data", "token:"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the kubeconfig has %s", secret)
		}
	}
	return file
}

// kubectl is the program, with a cache of its own.
type kubectl struct {
	t    *testing.T
	path string
	env  []string
}

// newKubectl finds the program. Without it, the test is skipped.
func newKubectl(t *testing.T) *kubectl {
	t.Helper()
	path := testkit.Kubectl(t)
	dir := t.TempDir()
	return &kubectl{t, path, append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+dir)}
}

func (k *kubectl) command(kubeconfig string, m *member, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(k.t.Context(), k.path, append([]string{"--kubeconfig", kubeconfig, "--context", jo + "@" + m.name}, args...)...)
	cmd.Env = k.env
	return cmd
}

// may waits for an answer of `kubectl auth can-i`.
func (k *kubectl) may(kubeconfig string, m *member, what, want string) {
	k.t.Helper()
	testkit.Eventually(k.t, func() error {
		out, err := k.command(kubeconfig, m, append([]string{"auth", "can-i"}, strings.Fields(what)...)...).Output()
		got := strings.TrimSpace(string(out))
		if got == want {
			return nil
		}
		if exit := (&exec.ExitError{}); errors.As(err, &exit) {
			got += "\n" + string(exit.Stderr)
		}
		return fmt.Errorf("kubectl auth can-i %s in %s says %s, want %s (%w)", what, m.name, got, want, err)
	})
}

// run runs a command that has to succeed.
func (k *kubectl) run(kubeconfig string, m *member, command string) {
	k.t.Helper()
	if out, err := k.command(kubeconfig, m, strings.Fields(command)...).CombinedOutput(); err != nil {
		k.t.Errorf("kubectl %s in %s: %v\n%s", command, m.name, err, out)
	}
}
