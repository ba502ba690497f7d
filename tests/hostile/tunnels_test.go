package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/coder/websocket"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// What an agent, or a user, can do to a hub and to each other by a tunnel between them.
func TestHostileTunnels(t *testing.T) {
	ctx := context.Background()
	x := newTenancy(t, "tunnels", 3)
	r := x.request(x.csr(t, accessKey(t), x.user, asIs), "")
	testkit.Must(t, x.tenant.Create(ctx, r))
	credential := x.comply(t, r)
	end := func() *websocket.Conn { // the user's
		t.Helper()
		w, err := x.userEnd(t, r.Name, tunnel.NewID())(ctx)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = w.CloseNow() })
		return w
	}
	if w, err := x.userEnd(t, r.Name, tunnel.NewID())(ctx); err == nil ||
		!strings.Contains(err.Error(), "it gives no access yet") {
		t.Errorf("a tunnel opens without access: %v, %v", w, err)
	}
	// As if the cluster had issued something.
	const granted = `"status":"True","reason":"Granted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"`
	testkit.Must(t, x.admin.Status().Patch(ctx, r, mergePatchf(
		`{"status":{"notAfter":%q,"conditions":[{"type":"Approved",`+granted+`},{"type":"Issued",`+granted+`}]}}`,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339))))
	if _, err := x.userEnd(t, r.Name, tunnel.NewID())(ctx); err == nil ||
		!strings.Contains(err.Error(), "takes no tunnels") {
		t.Errorf("a tunnel opens to an agent that takes none: %v", err)
	}
	testkit.Must(
		t,
		x.admin.Patch(ctx, clusterNamed(x.cluster, false), mergePatchf(`{"metadata":{"annotations":{%q:"{}"}}}`,
			muster.TunnelAnnotation)),
	)

	t.Run("words of the agent for a terminal", func(t *testing.T) {
		id := tunnel.NewID()
		user, err := x.userEnd(t, r.Name, id)(ctx)
		testkit.Must(t, err)
		agent, err := x.agentEnd(t, credential, id)(ctx)
		testkit.Must(t, err)
		_ = agent.Close(websocket.StatusNormalClosure, "bye\x1b[2J\r\n\u202eroot@hub# ")
		_, _, err = user.Read(ctx)
		if err == nil || !strings.Contains(err.Error(), "the cluster's agent says: bye") ||
			strings.ContainsFunc(err.Error(), isOdd) {
			t.Errorf("the user is told %q", err)
		}
		testkit.Eventually(t, func() error {
			list := &eventsv1.EventList{}
			if err := x.admin.List(ctx, list, client.InNamespace(x.namespace)); err != nil {
				return err
			}
			for _, e := range list.Items {
				if e.Reason == muster.EventTunnelClosed && strings.Contains(e.Note, id) {
					if strings.ContainsFunc(e.Note, isOdd) {
						t.Errorf("the event says %q", e.Note)
					}
					return nil
				}
			}
			return fmt.Errorf("no event about the tunnel %s", id)
		})
	})
	t.Run("an agent that restarts all the time", func(t *testing.T) {
		id := tunnel.NewID()
		user, err := x.userEnd(t, r.Name, id)(ctx)
		testkit.Must(t, err)
		refused := 0
		for range 50 {
			if w, err := x.agentEnd(t, credential, id)(ctx); err != nil {
				refused++
			} else {
				t.Cleanup(func() { _ = w.CloseNow() })
			}
		}
		if refused != 49 {
			t.Errorf("%d of 50 are refused", refused)
		}
		if _, _, err := user.Read(ctx); err == nil || !strings.Contains(err.Error(), "has restarted") {
			t.Errorf("the user is told %v", err)
		}
	})
	t.Run("packets that nobody reads", func(t *testing.T) {
		user := end()
		sending, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		for sending.Err() == nil { // more than is kept: the rest is dropped, and no more is held
			if user.Write(sending, websocket.MessageBinary, make([]byte, tunnel.MaxPacket)) != nil {
				break
			}
		}
		testkit.Must(t, x.tenant.Get(ctx, client.ObjectKeyFromObject(r), r)) // the hub is there
	})
	t.Run("tunnels over and over", func(t *testing.T) {
		open := 0
		for range 300 {
			w, err := x.userEnd(t, r.Name, tunnel.NewID())(ctx)
			if err == nil {
				open++
				_ = w.Close(websocket.StatusNormalClosure, "")
			}
		}
		if open == 0 || open > 120 {
			t.Errorf("a user opens %d tunnels in a row", open)
		}
	})
}

func isOdd(r rune) bool { return !unicode.IsPrint(r) }

func (x *tenancy) userEnd(t testing.TB, request, id string) tunnel.Hub {
	t.Helper()
	to, err := tunnel.At(x.tenantConfig, tunnel.Path("accessrequests", x.namespace, request), id)
	testkit.Must(t, err)
	return to
}

func (x *tenancy) agentEnd(t testing.TB, of client.Object, id string) tunnel.Hub {
	t.Helper()
	to, err := tunnel.At(x.agentConfig, tunnel.Path("clustercredentials", of.GetNamespace(), of.GetName()), id)
	testkit.Must(t, err)
	return to
}
