package access

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What kubectl does with pods goes through a tunnel: a session in a container, a log that is
// followed over a crash of the hub, and a forwarded port.
func TestStreamsOfPods(t *testing.T) {
	const behind, pod = "team-s", "web"
	clouds(t, behind)
	t.Cleanup(func() { // so that the cloud takes no namespace in the clusters of other tests
		p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: behind, Name: chosen}}
		_ = hub.admin(t).Delete(context.Background(), p)
	})
	m := prepare(t, "streaming", chosen)
	m.startWith("--user-access", "--tunnels")
	askIn(t, behind, m, v1alpha1.AccessCertificate).has()
	bindTunnel(t, behind, jo)
	k := startKubelet(t)
	k.runs(t, m, cloudNamespace, pod)
	file, cache := kubeconfigFor(t, jo), t.TempDir()
	through := func(command string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		t.Cleanup(cancel)
		c := exec.CommandContext(ctx, program, "access", "proxy", "--kubeconfig", file, "--cloud", behind+"/prod",
			"--cluster", m.name, "--", "sh", "-c", command)
		c.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
		return c
	}

	t.Run("exec", func(t *testing.T) {
		c := through("kubectl exec -i " + pod + " -- shout")
		c.Stdin = strings.NewReader("hello through the wall\n")
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "HELLO THROUGH THE WALL") {
			t.Errorf("got %v and %s", err, out)
		}
	})
	t.Run("a log over a crash of the hub", func(t *testing.T) {
		c := through("exec kubectl logs -f " + pod)
		out, err := c.StdoutPipe()
		testkit.Must(t, err)
		testkit.Must(t, c.Start())
		lines := bufio.NewScanner(out)
		says := func(want string) {
			t.Helper()
			k.lines <- want
			if !lines.Scan() || lines.Text() != want {
				t.Fatalf("the log has %q (%v), want %q", lines.Text(), lines.Err(), want)
			}
		}
		says("before")
		testkit.Must(t, hub.process.Kill())
		k.lines <- "while there is no hub"
		testkit.Must(t, hub.process.Restart())
		if !lines.Scan() || lines.Text() != "while there is no hub" {
			t.Fatalf("the log has %q (%v)", lines.Text(), lines.Err())
		}
		says("after")
		close(k.lines)
		if lines.Scan() {
			t.Errorf("the log goes on with %q", lines.Text())
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("a forwarded port", func(t *testing.T) {
		c := through("exec kubectl port-forward pod/" + pod + " :80")
		out, err := c.StdoutPipe()
		testkit.Must(t, err)
		testkit.Must(t, c.Start())
		defer func() {
			_ = c.Process.Signal(os.Interrupt)
			_ = c.Wait()
		}()
		lines := bufio.NewScanner(out)
		if !lines.Scan() {
			t.Fatal("kubectl says nothing")
		}
		at, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "Forwarding from "), " ")
		go func() { _, _ = io.Copy(io.Discard, out) }()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		testkit.Must(t, err)
		defer func() { _ = conn.Close() }()
		testkit.Must(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Write([]byte("ping"))
		testkit.Must(t, err)
		answer := make([]byte, 4)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "PING" {
			t.Errorf("got %q and %v", answer, err)
		}
	})
}

// kubelet answers for the pods of a node as a kubelet does: with logs, sessions and ports. What
// a pod gets it gives back in capitals.
type kubelet struct {
	server *httptest.Server
	lines  chan string
}

func startKubelet(t testing.TB) *kubelet {
	k := &kubelet{lines: make(chan string, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/", k.logs)
	mux.HandleFunc("/exec/", exchange([]string{"v4.channel.k8s.io", "v5.channel.k8s.io"}, session))
	mux.HandleFunc("/portForward/", exchange([]string{"portforward.k8s.io"}, port))
	k.server = httptest.NewTLSServer(mux)
	t.Cleanup(k.server.CloseClientConnections)
	return k
}

// runs has a pod run on the kubelet's node.
func (k *kubelet) runs(t testing.TB, m *member, namespace, name string) {
	t.Helper()
	_, text, err := net.SplitHostPort(k.server.Listener.Addr().String())
	testkit.Must(t, err)
	at, err := strconv.ParseInt(text, 10, 32)
	testkit.Must(t, err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	testkit.Must(t, m.admin.Create(t.Context(), node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(at)
	testkit.Must(t, m.admin.Status().Update(t.Context(), node))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	testkit.Must(t, client.IgnoreAlreadyExists(m.admin.Create(t.Context(), account)))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pod.Spec = corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "c:1"}}}
	testkit.Must(t, m.admin.Create(t.Context(), pod))
	testkit.Must(t, m.admin.Status().Patch(t.Context(), pod,
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`))))
}

// logs is a log that ends when the lines do.
func (k *kubelet) logs(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	flush := func() { _ = http.NewResponseController(w).Flush() }
	for flush(); ; flush() {
		select {
		case line, more := <-k.lines:
			if !more {
				return
			}
			_, _ = fmt.Fprintln(w, line)
		case <-r.Context().Done():
			return
		}
	}
}

// streams are those of a connection, by their types.
type streams struct {
	mu    sync.Mutex
	known map[string]chan httpstream.Stream
}

func (s *streams) of(kind string) chan httpstream.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[kind] == nil {
		s.known[kind] = make(chan httpstream.Stream, 10)
	}
	return s.known[kind]
}

// get waits for a stream; nil at the end of the connection.
func (s *streams) get(ctx context.Context, kind string) httpstream.Stream {
	select {
	case stream := <-s.of(kind):
		return stream
	case <-ctx.Done():
		return nil
	}
}

// exchange upgrades a connection, and serves its streams.
func exchange(protocols []string, serve func(ctx context.Context, s *streams)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, protocols); err != nil {
			return
		}
		s := &streams{known: map[string]chan httpstream.Stream{}}
		conn := spdy.NewResponseUpgrader().
			UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
				s.of(stream.Headers().Get(corev1.StreamType)) <- stream
				return nil
			})
		if conn == nil {
			return
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			<-conn.CloseChan()
			cancel()
		}()
		serve(ctx, s)
	}
}

// session is a program in a container.
func session(ctx context.Context, s *streams) {
	failure, in, out, errors := s.get(ctx, corev1.StreamTypeError), s.get(ctx, corev1.StreamTypeStdin),
		s.get(ctx, corev1.StreamTypeStdout), s.get(ctx, corev1.StreamTypeStderr)
	if ctx.Err() != nil {
		return
	}
	capitals(out, in)
	_, _ = out.Close(), errors.Close()
	_, _ = failure.Write([]byte(`{"metadata":{},"status":"Success"}`))
	_ = failure.Close()
	<-ctx.Done()
}

// port is a port of a pod, with one connection.
func port(ctx context.Context, s *streams) {
	failure, data := s.get(ctx, corev1.StreamTypeError), s.get(ctx, corev1.StreamTypeData)
	if ctx.Err() != nil {
		return
	}
	capitals(data, data)
	_ = failure.Close()
	<-ctx.Done()
}

// capitals copies text in capitals, as it comes.
func capitals(to io.Writer, from io.Reader) {
	for buffer := make([]byte, 1024); ; {
		n, err := from.Read(buffer)
		_, _ = io.WriteString(to, strings.ToUpper(string(buffer[:n])))
		if err != nil {
			return
		}
	}
}
