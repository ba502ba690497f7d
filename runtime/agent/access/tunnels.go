package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/policy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// tunnels are the agent's ends of those that users have open. nil has none.
type tunnels struct {
	agent *agent
	// ctx is the life of the agent's run.
	ctx     context.Context //nolint:containedctx // tunnels live longer than the reconcile that opens them
	running sync.WaitGroup
	dial    func(context.Context) (net.Conn, error)

	mu sync.Mutex
	// open are those of each credential, by their ID. One that has ended stays until the
	// hub names it no more.
	open map[string]map[string]context.CancelCauseFunc
}

// grace is how long the hub may take to end a tunnel that it names no more.
const grace = 500 * time.Millisecond

// newTunnels prepares the agent's ends. said is what the hub gets to know: where the API
// server is that they lead to.
func newTunnels(a *agent) (t *tunnels, said string, err error) {
	config := rest.CopyConfig(a.ManagedCluster)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, "", fmt.Errorf("read the authority of the managed cluster: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, "", fmt.Errorf("find the API server of the managed cluster: %w", err)
	}
	port := base.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[base.Scheme]
	}
	address := net.JoinHostPort(base.Hostname(), port)
	dial := (&net.Dialer{KeepAlive: time.Minute}).DialContext
	if config.Dial != nil {
		dial = config.Dial
	}
	text, err := json.Marshal(v1alpha1.Endpoint{URL: base.Scheme + "://" + base.Host, CABundle: config.CAData})
	return &tunnels{
		agent: a, open: map[string]map[string]context.CancelCauseFunc{},
		dial: func(ctx context.Context) (net.Conn, error) { return dial(ctx, "tcp", address) },
	}, string(text), err
}

// keep has the agent's ends of a credential's tunnels be as the hub and the policy say. c is
// nil when the credential is gone.
func (t *tunnels) keep(c *v1alpha1.ClusterCredential, name string, p policy.Policy) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	open := t.open[name]
	wanted := map[string]bool{}
	var refusal error
	if c != nil {
		refusal = t.refusal(c, p)
		for _, entry := range c.Spec.Tunnels {
			wanted[entry.ID] = true
			switch end, known := open[entry.ID]; {
			case known && refusal != nil && p.Problem() == nil: // a mistake in the policy takes nothing back
				end(refusal)
			case !known && tunnel.IsID(entry.ID):
				if open == nil {
					open = map[string]context.CancelCauseFunc{}
					t.open[name] = open
				}
				open[entry.ID] = t.begin(c.DeepCopy(), entry, refusal)
			}
		}
	}
	for id, end := range open {
		if !wanted[id] {
			// The hub ends it, and says why. This is in case it does not.
			time.AfterFunc(grace, func() { end(&tunnel.EndedError{Reason: "the hub names it no more"}) })
			delete(open, id)
		}
	}
	if len(open) == 0 {
		delete(t.open, name)
	}
}

// refusal is why a credential's user gets no tunnel, or nil.
func (t *tunnels) refusal(c *v1alpha1.ClusterCredential, p policy.Policy) error {
	if err := p.RefusesTunnel(c.Spec, t.agent.Namespace); err != nil {
		return &tunnel.EndedError{Reason: err.Error()}
	}
	until := c.Status.NotAfter
	if !meta.IsStatusConditionTrue(c.Status.Conditions, muster.ConditionIssued) ||
		meta.IsStatusConditionTrue(c.Status.Conditions, muster.ConditionFailed) ||
		until == nil || !t.agent.Clock.Now().Before(until.Time) {
		return &tunnel.EndedError{Reason: "the cluster gives no access by this credential"}
	}
	return nil
}

// begin opens the agent's end of a tunnel, or says at the hub why it does not.
func (t *tunnels) begin(c *v1alpha1.ClusterCredential, entry v1alpha1.Tunnel, refusal error) context.CancelCauseFunc {
	ctx, cancel := context.WithCancelCause(t.ctx)
	path := tunnel.Path("clustercredentials", c.Namespace, c.Name)
	t.running.Go(func() {
		defer cancel(nil)
		err := recovery.Call(func() error {
			hub, err := tunnel.At(t.agent.Upgrades, path, entry.ID)
			if err != nil {
				return err
			}
			if refusal != nil {
				return tunnel.Refuse(ctx, hub, refusal.Error())
			}
			until, stop := context.WithTimeoutCause(
				ctx,
				c.Status.NotAfter.Sub(t.agent.Clock.Now()),
				&tunnel.EndedError{Reason: "access has ended"},
			)
			defer stop()
			t.report(ctx, c, entry, corev1.EventTypeNormal, muster.EventTunnelOpened, "open")
			err = tunnel.Serve(until, hub, t.dial)
			if cause := context.Cause(until); cause != nil {
				err = cause
			}
			if errors.Is(err, tunnel.ErrSilent) { // the hub may not know of it, such as a replica that was restarted
				err = errors.Join(err, t.giveUp(until, path, entry.ID))
			}
			return err
		})
		if refusal != nil {
			t.report(ctx, c, entry, corev1.EventTypeWarning, muster.EventTunnelClosed, "refused: "+refusal.Error())
			return
		}
		t.report(ctx, c, entry, corev1.EventTypeNormal, muster.EventTunnelClosed, "closed: "+why(err))
	})
	return cancel
}

func (t *tunnels) giveUp(ctx context.Context, path, id string) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return tunnel.GiveUp(ctx, t.agent.Upgrades, path, id)
}

func why(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return "the agent ends"
	}
	return err.Error()
}

// reportTimeout is how long an event may take.
const reportTimeout = 5 * time.Second

// report tells the cluster's owner of a tunnel.
func (t *tunnels) report(
	ctx context.Context,
	c *v1alpha1.ClusterCredential,
	entry v1alpha1.Tunnel,
	kind, reason, what string,
) {
	t.agent.Log.Info("a tunnel is "+what, append(about(c), "tunnel", entry.ID, "by", entry.User)...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	t.agent.event(
		ctx,
		c,
		kind,
		reason,
		fmt.Sprintf("tunnel %s of the user %q for %s: %s", entry.ID, entry.User, sentence(c), what),
	)
}
