package access_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel/tunneltest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// names has the hub name a tunnel of a credential.
func (f *fixture) names(c *v1alpha1.ClusterCredential, ids ...string) {
	f.t.Helper()
	f.must(f.Get(f.ctx, client.ObjectKeyFromObject(c), c))
	before := c.DeepCopy()
	c.Spec.Tunnels = nil
	for _, id := range ids {
		c.Spec.Tunnels = append(c.Spec.Tunnels, v1alpha1.Tunnel{ID: id, User: "jo@example.com", Since: metav1.Now()})
	}
	f.must(f.Patch(f.ctx, c, client.MergeFrom(before)))
}

// connects opens the user's end.
func (f *fixture) connects(id string) (*tunnel.Client, error) {
	ctx, cancel := context.WithTimeout(f.ctx, 30*time.Second)
	defer cancel()
	return tunnel.Connect(ctx, f.relay.User(f.t, id))
}

func (f *fixture) tunnelRefused(id, want string) {
	f.t.Helper()
	c, err := f.connects(id)
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		f.t.Errorf("got %v, want %q\n%s", err, want, f.logged())
	}
}

// endsWith waits for the end of a tunnel.
func (f *fixture) endsWith(c *tunnel.Client, want string) {
	f.t.Helper()
	<-c.Done()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), want) {
		f.t.Errorf("it ends with %v, want %q", err, want)
	}
}

func TestTunnelLeadsToTheAgentsOwnAPIServer(t *testing.T) {
	f := newFixture(t)
	f.relay = tunneltest.New(t)
	f.start()
	c, id := f.credential(nil), tunnel.NewID()
	f.issued(c)
	f.names(c, "not an ID", id)
	end, err := f.connects(id)
	f.must(err)
	through := rest.AnonymousClientConfig(env.Config("test-user"))
	// The user may say what it wants: the agent knows one place.
	through.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return end.Open(ctx) }
	_, err = kubernetes.NewForConfigOrDie(through).Discovery().ServerVersion()
	f.must(err)
	var at v1alpha1.Endpoint
	f.mu.Lock()
	said := f.annotations[muster.TunnelAnnotation]
	f.mu.Unlock()
	f.must(json.Unmarshal([]byte(said), &at))
	if at.URL != env.Config("").Host || len(at.CABundle) == 0 {
		t.Errorf("the agent says that the API server is at %q", said)
	}
	f.reported(muster.EventTunnelOpened, id, "jo@example.com")
	f.policy(map[string]string{"tunnels": "flase"}) // a mistake takes nothing back, and lets nobody in
	second := tunnel.NewID()
	f.names(c, id, second)
	f.eventually(func() error {
		if log := f.logged(); !strings.Contains(log, second) {
			return fmt.Errorf("the agent does not know of the tunnel %s", second)
		}
		return nil
	})
	_, err = kubernetes.NewForConfigOrDie(through).Discovery().ServerVersion()
	f.must(err)
	f.policy(map[string]string{"tunnels": "false"})
	f.endsWith(end, "the cluster's owner does not allow tunnels")
	f.reported(muster.EventTunnelClosed, id, "the cluster's owner does not allow tunnels")
}

func TestAgentRefusesTunnels(t *testing.T) {
	for name, x := range map[string]struct {
		prepare func(*fixture)
		change  func(*v1alpha1.ClusterCredential)
		want    string
	}{
		"of a credential that it has not issued": {
			func(f *fixture) { f.setSigner(nil) }, nil, "the cluster gives no access by this credential",
		},
		"of one that it has refused": {
			func(*fixture) {}, func(c *v1alpha1.ClusterCredential) { c.Spec.HubID = "another" }, "gives no access",
		},
		"that the owner does not allow": {
			func(f *fixture) { f.policy(map[string]string{"tunnels": "false"}) }, nil, "does not allow tunnels",
		},
		"while the policy can't be read": {
			func(f *fixture) { f.policy(map[string]string{"tunnel": "true"}) }, nil,
			"can't be read, so no new access is given",
		},
		"of a user whom the owner does not allow": {
			func(f *fixture) { f.policy(map[string]string{"forbiddenUsers": "jo@*"}) }, nil,
			"does not allow access for the user",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.relay = tunneltest.New(t)
			x.prepare(f)
			f.start()
			id := tunnel.NewID()
			c := f.honest()
			if x.change != nil {
				x.change(c)
			}
			c.Spec.Tunnels = []v1alpha1.Tunnel{{ID: id, User: "jo@example.com", Since: metav1.Now()}}
			go func() {
				for !f.relay.HasUser(id) { // so that the user gets to know why
					time.Sleep(time.Millisecond)
				}
				_ = f.Create(f.ctx, c)
			}()
			f.tunnelRefused(id, x.want)
		})
	}
}

func TestAgentWithoutTunnelsSaysSo(t *testing.T) {
	f := started(t)
	f.reports("Certificate,Token")
	f.mu.Lock()
	defer f.mu.Unlock()
	if said, known := f.annotations[muster.TunnelAnnotation]; said != "" || !known {
		t.Errorf("the agent says %q", said)
	}
}
