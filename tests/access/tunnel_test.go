package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// behind is the tenant's namespace on the hub.
const behind = "team-w"

// A cluster whose agent takes tunnels, behind a wall: nobody says where it is but the agent.
func TestTunnels(t *testing.T) {
	clouds(t, behind)
	walled := prepare(t, "walled", chosen)
	walled.startWith("--user-access", "--tunnels")
	a := askIn(t, behind, walled, v1alpha1.AccessCertificate)
	config := a.has()
	if at := a.request.Status.Endpoints; len(at) != 1 || at[0].URL != walled.config.Host {
		t.Errorf("the API server is at %+v, want what the agent says: %s", at, walled.config.Host)
	}
	refused(t, a, hub.config(jo), `cannot tunnel resource "accessrequests"`)
	right := bindTunnel(t, behind, jo)
	stranger := "mallory@example.com"
	bindTunnel(t, behind, stranger)
	refused(
		t,
		a,
		hub.config(stranger),
		`it gives access to the user "jo@example.com", and you are "mallory@example.com"`,
	)

	t.Run("connections go through, and are recorded", func(t *testing.T) {
		c := open(t, a)
		through := kubernetes.NewForConfigOrDie(c.config(config))
		_, err := through.CoreV1().ConfigMaps(cloudNamespace).List(t.Context(), metav1.ListOptions{})
		testkit.Must(t, err)
		entries := credentialOf(t, a).Spec.Tunnels
		if len(entries) != 1 || entries[0].ID != c.id || entries[0].User != jo {
			t.Errorf("the entries are %+v", entries)
		}
		c.Close()
		recorded(t, a, muster.EventTunnelOpened, c.id, jo, walled.name)
		recorded(t, a, muster.EventTunnelClosed, c.id, jo, walled.name, "closed by the user", "bytes", "since")
		testkit.Eventually(t, func() error {
			if left := credentialOf(t, a).Spec.Tunnels; len(left) > 0 {
				return fmt.Errorf("the entries %+v are left", left)
			}
			return nil
		})
	})
	t.Run("a watch outlives a crash of the hub", func(t *testing.T) {
		c := open(t, a)
		through := kubernetes.NewForConfigOrDie(c.config(config))
		seen, err := through.CoreV1().
			ConfigMaps(cloudNamespace).
			Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=news"})
		testkit.Must(t, err)
		defer seen.Stop()
		testkit.Must(t, hub.process.Kill())
		testkit.Must(
			t,
			walled.admin.Create(
				t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cloudNamespace, Name: "news"}},
			),
		)
		testkit.Must(t, hub.process.Restart())
		if e := <-seen.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != "news" {
			t.Errorf("got %+v", e)
		}
		_, err = through.CoreV1().ConfigMaps(cloudNamespace).Get(t.Context(), "news", metav1.GetOptions{})
		testkit.Must(t, err)
	})
	t.Run("the agent restarts", func(t *testing.T) {
		c := open(t, a)
		testkit.Must(t, walled.agent.Kill())
		testkit.Must(t, walled.agent.Restart())
		ends(t, c, "the cluster's agent has restarted") // its connections are gone with it
		open(t, a)
	})
	t.Run("the cluster's owner has the last word", func(t *testing.T) {
		c := open(t, a)
		policy := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "open-cluster-management-agent", Name: muster.PolicyConfigMap},
			Data:       map[string]string{"tunnels": "false"},
		}
		testkit.Must(t, walled.admin.Create(t.Context(), policy))
		ends(t, c, "the cluster's owner does not allow tunnels")
		refused(t, a, hub.config(jo), "the cluster's owner does not allow tunnels")
		testkit.Must(t, walled.admin.Delete(t.Context(), policy))
		testkit.Eventually(t, func() error {
			c, _, err := connect(t, a, hub.config(jo))
			if err == nil {
				c.Close()
			}
			return err
		})
	})
	t.Run("no more than allowed", func(t *testing.T) {
		for range 8 {
			open(t, a)
		}
		refused(t, a, hub.config(jo), "8 tunnels are open by this access request")
	})
	t.Run("what others send", func(t *testing.T) {
		c := open(t, a)
		at := func(path, id string) tunnel.Hub {
			to, err := tunnel.At(hub.Joined(t, "other-"+id[:8], "agent"), path, id)
			testkit.Must(t, err)
			return to
		}
		own := tunnel.Path("clustercredentials", walled.name, muster.Credential(string(a.request.UID)))
		isRefused(t, at(own, c.id), "cannot tunnel resource")
		isRefused(t, at(a.path(), tunnel.NewID()), "cannot tunnel resource")
		asAdmin, err := tunnel.At(hub.Admin, own, tunnel.NewID())
		testkit.Must(t, err)
		isRefused(t, asAdmin, "has ended")
		for _, id := range []string{"", "../..", strings.Repeat("a", 33)} {
			odd, err := tunnel.At(hub.config(jo), a.path(), id)
			testkit.Must(t, err)
			isRefused(t, odd, "32 hexadecimal digits")
		}
		for name, send := range map[string]func(*websocket.Conn) error{
			"text": func(w *websocket.Conn) error { return w.Write(t.Context(), websocket.MessageText, []byte("{}")) },
			"too large": func(w *websocket.Conn) error {
				return w.Write(t.Context(), websocket.MessageBinary, make([]byte, 1<<20))
			},
			"noise": func(w *websocket.Conn) error {
				return errors.Join(w.Write(t.Context(), websocket.MessageBinary, nil),
					w.Write(t.Context(), websocket.MessageBinary, make([]byte, tunnel.MaxPacket)))
			},
		} {
			hub, err := tunnel.At(hub.config(jo), a.path(), tunnel.NewID())
			testkit.Must(t, err)
			w, err := hub(t.Context())
			testkit.Must(t, err)
			if err := send(w); err != nil {
				t.Logf("%s: the hub hangs up: %v", name, err)
			}
			_ = w.Close(websocket.StatusNormalClosure, strings.Repeat("x", 100))
		}
		if code := plainGet(t, a.path()+"?id="+tunnel.NewID()); code != http.StatusUpgradeRequired {
			t.Errorf("a request without an upgrade is answered with %d", code)
		}
		through := kubernetes.NewForConfigOrDie(c.config(config))
		_, err = through.CoreV1().ConfigMaps(cloudNamespace).List(t.Context(), metav1.ListOptions{})
		testkit.Must(t, err)
	})
	t.Run("an administrator ends one", func(t *testing.T) {
		c := open(t, a)
		// Not one of those who may write anything.
		ops := hub.config("ops")
		role := &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: walled.name, Name: "ops"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{
					muster.GroupName,
				}, Resources: []string{"clustercredentials"}, Verbs: []string{"get", "update"},
			}},
		}
		testkit.Must(t, hub.admin(t).Create(t.Context(), role))
		testkit.Must(t, hub.admin(t).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: walled.name,
				Name:      role.Name,
			}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ops"}},
		}))
		testfleet.AwaitRules(t, ops, walled.name, role.Rules...)
		testkit.Eventually(t, func() error { // tunnels of before are ending, which is a conflict
			credential := credentialOf(t, a)
			credential.Spec.Tunnels = append(
				credential.Spec.Tunnels,
				v1alpha1.Tunnel{ID: tunnel.NewID(), User: "x", Since: metav1.Now()},
			)
			err := testfleet.Client(t, ops).Update(t.Context(), credential)
			if err == nil || !strings.Contains(err.Error(), "written by the hub only") {
				return fmt.Errorf("an entry is written by others: %w", err)
			}
			return nil
		})
		testkit.Eventually(t, func() error {
			credential := credentialOf(t, a)
			credential.Spec.Tunnels = nil
			return testfleet.Client(t, ops).Update(t.Context(), credential)
		})
		ends(t, c, "its entry in the cluster credential was removed")
	})
	t.Run("muster access proxy", func(t *testing.T) {
		file := kubeconfigFor(t, jo)
		out := run1(t, "access", "proxy", "--kubeconfig", file, "--cloud", behind+"/prod", "--cluster", walled.name,
			"--", "sh", "-c", `kubectl get configmaps &&
				kubectl --kubeconfig "$KUBE_CONFIG_PATH" create configmap through-the-wall`)
		if !strings.Contains(out, "configmap/through-the-wall created") {
			t.Errorf("it says %s", out)
		}
		testkit.Must(
			t,
			walled.admin.Get(
				t.Context(),
				client.ObjectKey{Namespace: cloudNamespace, Name: "through-the-wall"},
				&corev1.ConfigMap{},
			),
		)
	})
	t.Run("the right is withdrawn", func(t *testing.T) {
		c := open(t, a)
		testkit.Must(t, hub.admin(t).Delete(t.Context(), right))
		ends(t, c, "the user has no right to a tunnel any more")
		bindTunnel(t, behind, jo)
	})
	t.Run("access is withdrawn", func(t *testing.T) {
		c := open(t, a)
		testkit.Must(t, hub.as(t, jo).Delete(t.Context(), a.request))
		ends(t, c, "access")
		if _, _, err := connect(t, a, hub.config(jo)); err == nil {
			t.Error("a tunnel opens without access")
		}
	})
	t.Run("the agent takes no tunnels", func(t *testing.T) {
		testkit.Must(t, walled.agent.Stop())
		walled.start("--user-access")
		b := askIn(t, behind, walled, v1alpha1.AccessCertificate)
		b.has()
		testkit.Eventually(t, func() error {
			c, _, err := connect(t, b, hub.config(jo))
			if err == nil {
				c.Close()
			}
			if err == nil ||
				!strings.Contains(err.Error(), "takes no tunnels: start it with --user-access --tunnels") {
				return fmt.Errorf("got %w", err)
			}
			return nil
		})
	})
}

// path is where the user's end of a tunnel connects.
func (a *access) path() string {
	return tunnel.Path("accessrequests", a.request.Namespace, a.request.Name)
}

// opened is an open tunnel.
type opened struct {
	*tunnel.Client
	id string
}

// config is a configuration that reaches the cluster through the tunnel.
func (o opened) config(direct *rest.Config) *rest.Config {
	config := rest.CopyConfig(direct)
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Open(ctx) }
	return config
}

func connect(t testing.TB, a *access, who *rest.Config) (*tunnel.Client, string, error) {
	t.Helper()
	id := tunnel.NewID()
	to, err := tunnel.At(who, a.path(), id)
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := tunnel.Connect(ctx, to)
	return c, id, err
}

func open(t testing.TB, a *access) opened {
	t.Helper()
	c, id, err := connect(t, a, hub.config(jo))
	if err != nil {
		t.Fatalf("%v\n%+v\n%s\n%s", err, credentialOf(t, a).Spec.Tunnels, a.member.agent.Log(), hub.log())
	}
	t.Cleanup(c.Close)
	return opened{c, id}
}

func refused(t testing.TB, a *access, who *rest.Config, want string) {
	t.Helper()
	c, _, err := connect(t, a, who)
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func isRefused(t testing.TB, to tunnel.Hub, want string) {
	t.Helper()
	w, err := to(t.Context())
	if err == nil {
		_ = w.CloseNow()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// ends waits for the end of a tunnel, for a reason.
func ends(t testing.TB, c opened, want string) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the tunnel is still open")
	}
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it ends with %v, want %q", err, want)
	}
}

// bindTunnel gives a user the right to tunnels by the access requests of a namespace.
func bindTunnel(t testing.TB, namespace, user string) *rbacv1.RoleBinding {
	t.Helper()
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "tunnel-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "muster:access-tunnel"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	testkit.Must(t, hub.admin(t).Create(t.Context(), b))
	testfleet.AwaitRules(t, hub.config(user), namespace, rbacv1.PolicyRule{
		APIGroups: []string{
			muster.GroupName,
		}, Resources: []string{"accessrequests"}, Verbs: []string{muster.VerbTunnel},
	})
	return b
}

func credentialOf(t testing.TB, a *access) *v1alpha1.ClusterCredential {
	t.Helper()
	c := &v1alpha1.ClusterCredential{}
	name := client.ObjectKey{Namespace: a.member.name, Name: muster.Credential(string(a.request.UID))}
	testkit.Must(t, hub.admin(t).Get(t.Context(), name, c))
	return c
}

// recorded waits for an event about an access request with some words in it.
func recorded(t testing.TB, a *access, reason string, words ...string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		list := &eventsv1.EventList{}
		if err := hub.admin(t).List(t.Context(), list, client.InNamespace(a.request.Namespace)); err != nil {
			return err
		}
		var notes []string
	events:
		for _, e := range list.Items {
			if e.Reason != reason || e.Regarding.UID != a.request.UID {
				continue
			}
			notes = append(notes, e.Note)
			for _, word := range words {
				if !strings.Contains(e.Note, word) {
					continue events
				}
			}
			return nil
		}
		return fmt.Errorf("no event %s with %q in %q", reason, words, notes)
	})
}

func plainGet(t testing.TB, path string) int {
	t.Helper()
	c, err := rest.HTTPClientFor(hub.config(jo))
	testkit.Must(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub.Admin.Host+path, http.NoBody)
	testkit.Must(t, err)
	answer, err := c.Do(r)
	testkit.Must(t, err)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// kubeconfigFor is a kubeconfig of the hub for a user whom its administrator impersonates.
func kubeconfigFor(t testing.TB, user string) string {
	t.Helper()
	text, err := os.ReadFile(hub.kubeconfig)
	testkit.Must(t, err)
	path := filepath.Join(t.TempDir(), "hub.kubeconfig")
	as := strings.Replace(string(text), "  user:\n", "  user:\n    as: "+user+"\n", 1)
	testkit.Must(t, os.WriteFile(path, []byte(as), 0o600))
	return path
}

// run1 runs muster, and returns what it prints.
func run1(t testing.TB, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("muster %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// patience is how long a tunnel may take to open or to end, on a busy machine.
const patience = time.Minute
