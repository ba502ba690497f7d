package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
)

// endsWithin is how long a program may take that was asked to end. It takes two
// seconds at the most; what waits for something does so for longer than this.
const endsWithin = time.Minute

// program is a muster that runs.
type program struct {
	*exec.Cmd
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// begin starts muster, which is killed when the test ends.
func begin(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(muster, args...)}
	p.Stderr = &p.stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// ready waits for the line that says so.
func (p *program) ready(t *testing.T) {
	t.Helper()
	if line, err := p.stdout.ReadString('\n'); err != nil || !strings.Contains(line, " ready ") {
		_ = p.Process.Kill()
		_ = p.Wait()
		t.Fatalf("got %q, %v\n%s", line, err, &p.stderr)
	}
}

// ended waits for the end and fails the test unless it comes in time, with an
// exit code.
func (p *program) ended(t *testing.T, code int) {
	t.Helper()
	limit := endsWithin
	if code != 0 {
		limit = testkit.Timeout // it has started before it ends by itself
	}
	late := time.AfterFunc(limit, func() { _ = p.Process.Kill() })
	_, _ = io.Copy(io.Discard, p.stdout)
	_ = p.Wait()
	if !late.Stop() {
		t.Fatalf("it did not end within %s\n%s", limit, &p.stderr)
	}
	if got := p.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d\n%s", got, code, &p.stderr)
	}
}

// complaint is the one line in which a program says why it ended. It fails the
// test when there is something like a crash, or no such line, or several.
func (p *program) complaint(t *testing.T) string {
	t.Helper()
	return complaint(t, p.stderr.String())
}

func complaint(t *testing.T, stderr string) string {
	t.Helper()
	var found []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "Error: ") {
			found = append(found, strings.TrimSpace(line))
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "goroutine ") || strings.HasPrefix(line, "fatal error: ") {
			t.Fatalf("it crashed:\n%s", stderr)
		}
	}
	if len(found) != 1 || !strings.HasSuffix(strings.TrimSpace(stderr), found[0]) {
		t.Fatalf("got %q, want one error, at the end\n%s", found, stderr)
	}
	return found[0]
}

func says(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("got %q, want it to say %q", got, w)
		}
	}
}

// silentServer takes connections and answers nobody.
func silentServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

func TestHubStopsInTimeAtAnyTime(t *testing.T) {
	exists := func(elem ...string) func(string) error {
		return func(dir string) error {
			_, err := os.Stat(filepath.Join(append([]string{dir}, elem...)...))
			return err
		}
	}
	for _, tc := range []struct {
		name  string
		flags []string
		wait  func(dir string) error
	}{
		{"while it opens its store", nil, exists("etcd")},
		{"when its store is open", nil, exists("run", "etcd.sock")},
		{"when the API server listens", nil, func(dir string) error {
			if _, err := os.Stat(filepath.Join(dir, "admin.kubeconfig")); err != nil {
				return err
			}
			config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
			if err != nil {
				return err
			}
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(config.Host, "https://"), time.Second)
			if err != nil {
				return err
			}
			return conn.Close()
		}},
		{"while etcd does not answer", []string{"--etcd-servers", "http://" + silentServer(t)}, exists("pki", "serving.crt")},
		{"while etcd is not there", []string{"--etcd-servers", "http://127.0.0.1:1"}, exists("pki", "serving.crt")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			p := begin(t, append([]string{"hub", "--data-dir", dir, "--secure-port", "0"}, tc.flags...)...)
			testkit.EventuallyThat(t, "it has got there", func() error { return tc.wait(dir) })
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			p.ended(t, 0)
			if strings.Contains(p.stderr.String(), "Error: ") {
				t.Errorf("it complained:\n%s", &p.stderr)
			}
		})
	}
}

func TestHubStopsWithWatchesOpen(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, "hub", "--data-dir", dir, "--secure-port", "0")
	p.ready(t)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ended(t, 0)
	if log := p.stderr.String(); strings.Contains(log, "Failed to shutdown server") {
		t.Errorf("it gave up on the watches:\n%s", log)
	}
}

// A hub whose data directory is not as it left it says what is wrong and what to
// do, in one line, and touches nothing.
func TestHubRefusesADataDirectoryThatLostSomething(t *testing.T) {
	original := t.TempDir()
	p := begin(t, "hub", "--data-dir", original, "--secure-port", "0")
	p.ready(t)
	fill(t, original, 40)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ended(t, 0)

	other := t.TempDir()
	q := begin(t, "hub", "--data-dir", other, "--secure-port", "0")
	q.ready(t)
	if err := q.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = q.Wait()

	remove := func(names ...string) func(string) error {
		return func(dir string) error {
			for _, n := range names {
				if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	replace := func(names ...string) func(string) error {
		return func(dir string) error {
			for _, n := range names {
				content, err := os.ReadFile(filepath.Join(other, n))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(dir, n), content, 0o600); err != nil {
					return err
				}
			}
			return nil
		}
	}
	truncate := func(pattern string, size int64) func(string) error {
		return func(dir string) error {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(found) == 0 {
				return fmt.Errorf("%s: %v, %v", pattern, found, err)
			}
			return os.Truncate(found[0], size)
		}
	}
	for _, tc := range []struct {
		name   string
		damage func(dir string) error
		want   []string
	}{
		{"the log cut", truncate("etcd/member/wal/0*.wal", 200_000), []string{"damaged", "etcd", "backup"}},
		{"the database cut", truncate("etcd/member/snap/db", 200_000), []string{"damaged", "cut short", "backup"}},
		{"the folder of the log emptied", remove("etcd/member/wal"), []string{"damaged", "wal is missing", "backup"}},
		{"the certificate authority gone", remove("pki/ca.crt", "pki/ca.key"), []string{"pki/ca.crt", "pki/ca.key", "missing", "backup", "--replace-lost-keys"}},
		{"the service-account key gone", remove("pki/service-account.key"), []string{"pki/service-account.key", "missing", "backup", "--replace-lost-keys"}},
		{"all keys gone", remove("pki"), []string{"pki/ca.crt", "pki/service-account.key", "--replace-lost-keys"}},
		{"another hub's certificate authority", replace("pki/ca.crt", "pki/ca.key"), []string{"another certificate authority", "pki", "--replace-lost-keys"}},
		{"another hub's service-account key", replace("pki/service-account.key"), []string{"another service-account key", "pki", "--replace-lost-keys"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "hub")
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			private(t, dir)
			if err := tc.damage(dir); err != nil {
				t.Fatal(err)
			}
			p := begin(t, "hub", "--data-dir", dir, "--secure-port", "0")
			p.ended(t, 1)
			says(t, p.complaint(t), append(tc.want, dir)...)
		})
	}

	t.Run("it starts with the option that keys are lost for good", func(t *testing.T) {
		if err := remove("pki")(original); err != nil {
			t.Fatal(err)
		}
		p := begin(t, "hub", "--data-dir", original, "--secure-port", "0", "--replace-lost-keys")
		p.ready(t)
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait()
		p = begin(t, "hub", "--data-dir", original, "--secure-port", "0") // and without the option
		p.ready(t)
	})
}

// private takes rights away from others that copying gave them.
func private(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// fill makes a hub write some hundred kilobytes.
func fill(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		if err := write(dir, fmt.Sprintf("filling-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
}

func write(dir, name string) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS = -1
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": strings.Repeat("a", 10_000)},
	}, metav1.CreateOptions{})
	return err
}

// A disk without room, as a limit on the size of files plays it, ends a hub with
// the remedy as its last line; nothing is lost, and it starts again.
func TestHubEndsWhenItCannotWriteAnyMore(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, "hub", "--data-dir", dir, "--secure-port", "0")
	p.ready(t)
	if err := write(dir, "before"); err != nil {
		t.Fatal(err)
	}
	small := unix.Rlimit{Cur: 4096, Max: 4096}
	if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_FSIZE, &small, nil); err != nil {
		t.Fatal(err)
	}
	_ = write(dir, "after")
	p.ended(t, 1)
	says(t, p.complaint(t), "data directory "+dir, "may grow no more", "ulimit -f")

	p = begin(t, "hub", "--data-dir", dir, "--secure-port", "0")
	p.ready(t)
	if err := write(dir, "before"); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("what was written before: %v", err)
	}
}

func TestHubSaysThatItsPortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _ = http.Serve(l, nil) }()
	p := begin(t, "hub", "--data-dir", t.TempDir(), "--secure-port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	p.ended(t, 1)
	says(t, p.complaint(t), "another process uses the port", "--secure-port")
}

// At the highest level of logging there is, what a Secret holds is in no log,
// whether it is written, read, listed or watched.
func TestSecretsAreInNoLog(t *testing.T) {
	const marker = "hunter2-of-the-log-test"
	for _, command := range []string{"hub", "devcluster"} {
		t.Run(command, func(t *testing.T) {
			dir := t.TempDir()
			p := begin(t, command, "--data-dir", dir, "--secure-port", "0", "-v", "6")
			p.ready(t)
			config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
			if err != nil {
				t.Fatal(err)
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			secrets := client.CoreV1().Secrets("kube-system")
			for name, kind := range map[string]corev1.SecretType{"some": corev1.SecretTypeOpaque, "bootstrap-token-aaaaaa": corev1.SecretTypeBootstrapToken} {
				s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: map[string]string{
					"value": marker, "token-id": "aaaaaa", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
				}}
				if _, err := secrets.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := secrets.Patch(t.Context(), name, types.MergePatchType, []byte(`{"stringData":{"more":"`+marker+`"}}`), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := secrets.List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			asToken := rest.AnonymousClientConfig(config)
			asToken.BearerToken = "aaaaaa.0123456789abcdef"
			testfleet.LogsIn(t, asToken)
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			p.ended(t, 0)
			log := p.stderr.String()
			for _, secret := range []string{marker, base64.StdEncoding.EncodeToString([]byte(marker))[:20], "0123456789abcdef", "PRIVATE KEY"} {
				if at := strings.Index(log, secret); at >= 0 {
					t.Errorf("%q is in the log: …%s", secret, log[max(0, at-300):at+len(secret)])
				}
			}
			if len(log) < 10_000 {
				t.Errorf("the log is short for its level: %d bytes", len(log))
			}
		})
	}
}
