package access

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/policy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// maxSteps bounds how far a credential is taken in one pass: a certificate request
// is made, approved, and waited for.
const maxSteps = 4

// pass looks after all credentials once, and returns after how long to do so again.
func (a *agent) pass(ctx context.Context) time.Duration {
	after, known := a.checkRights(ctx)
	if !known {
		return after // all would be refused
	}
	p := a.policy()
	credentials := a.credentials.Objects()
	wanted := make(map[string]bool, len(credentials))
	waits := make([]time.Duration, len(credentials))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, c := range credentials {
		wanted[c.Name] = true
		group.Go(func() error {
			waits[i] = a.advance(ctx, p, c)
			return nil
		})
	}
	_ = group.Wait()
	for _, r := range a.requests.Objects() {
		if !wanted[r.Name] && a.request(r.Name) != nil {
			waits = append(waits, a.removeStray(ctx, r))
		}
	}
	a.forget(wanted)
	return min(after, shortest(waits))
}

// shortest is the shortest of the waits that are not 0, which is to wait for news.
func shortest(waits []time.Duration) time.Duration {
	out := loop.Never
	for _, w := range waits {
		if w > 0 {
			out = min(out, w)
		}
	}
	return out
}

// policy is what the cluster's owner has decided.
func (a *agent) policy() policy.Policy {
	var cm *corev1.ConfigMap
	if found, ok := a.policies.GetNamespaced(a.Namespace, muster.PolicyConfigMap); ok {
		cm = found
	}
	p := policy.Read(cm)
	if err := p.Problem(); err == nil {
		a.problem.Clear()
	} else if a.problem.Changed(err.Error()) {
		a.Log.Warn("no user of the hub gets access", "err", err)
	}
	return p
}

// advance takes a credential as far as it goes now. It returns after how long to
// look again; 0 waits for news.
func (a *agent) advance(ctx context.Context, p policy.Policy, seen *v1alpha1.ClusterCredential) time.Duration {
	key := client.ObjectKeyFromObject(seen)
	if left := a.pausing(key); left > 0 {
		return left
	}
	for range maxSteps {
		view, err := a.view(ctx, p, seen)
		if err != nil {
			return a.failed(ctx, seen, err)
		}
		step := decide.Next(view)
		if step.Action == decide.Nothing {
			a.succeeded(key)
			return step.After
		}
		done, err := a.do(ctx, view, step)
		if err != nil {
			return a.failed(ctx, view.Credential, err)
		}
		if done {
			a.succeeded(key)
			return 0
		}
	}
	return 0
}

// view is what is known about a credential.
func (a *agent) view(ctx context.Context, p policy.Policy, seen *v1alpha1.ClusterCredential) (decide.View, error) {
	v := decide.View{
		ClusterName: a.ClusterName, HubID: a.hubID, AgentNamespace: a.Namespace, Policy: p,
		Able: a.able(), SignerSilent: a.signer.isSilent(a.Clock.Now()),
		Credential: a.writtenCredentials.Latest(client.ObjectKeyFromObject(seen), seen),
		Now:        a.Clock.Now(),
	}
	v.Request = a.request(seen.Name)
	if v.Request == nil {
		return v, nil
	}
	var err error
	v.Ours, err = a.made(ctx, v.Request)
	return v, err
}

// request is the certificate request of a name, as it is known best; nil when there
// is none with the agent's labels.
func (a *agent) request(name string) *certificatesv1.CertificateSigningRequest {
	seen, _ := a.requests.Get(name)
	return a.writtenRequests.Latest(client.ObjectKey{Name: name}, seen)
}

// forget drops what is remembered of credentials that are gone.
func (a *agent) forget(wanted map[string]bool) {
	gone := func(key client.ObjectKey) bool { return !wanted[key.Name] }
	a.writtenCredentials.Forget(gone)
	a.writtenRequests.Forget(func(key client.ObjectKey) bool {
		_, seen := a.requests.Get(key.Name)
		return gone(key) && !seen
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.failing {
		if gone(key) {
			delete(a.failing, key)
		}
	}
}

// failure is what went wrong with a credential, and for how long it pauses.
type failure struct {
	backoff *retry.Backoff
	until   time.Time
	times   int
	logged  retry.Once
}

func (a *agent) pausing(key client.ObjectKey) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.failing[key]; f != nil {
		return f.until.Sub(a.Clock.Now())
	}
	return 0
}

func (a *agent) succeeded(key client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failing, key)
}

// passing is how many attempts may fail before the hub is told.
const passing = 4

// failed notes a failure, tells of one that stays, and returns after how long to try
// again.
func (a *agent) failed(ctx context.Context, c *v1alpha1.ClusterCredential, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	key := client.ObjectKeyFromObject(c)
	a.mu.Lock()
	f := a.failing[key]
	if f == nil {
		f = &failure{backoff: retry.New(a.Clock, retry.Quick(time.Minute))}
		a.failing[key] = f
	}
	f.times++
	after := f.backoff.Next()
	f.until = a.Clock.Now().Add(after)
	times := f.times
	a.mu.Unlock()
	if times >= passing && f.logged.Changed(err.Error()) {
		a.Log.Warn("cannot give a user access, trying again", "credential", key.Name, "err", err)
		if errReport := a.reportWaiting(ctx, c, muster.ReasonTryingAgain, err.Error()); errReport != nil {
			a.Log.Debug("cannot report on a credential", "credential", key.Name, "err", errReport)
		}
	} else {
		a.Log.Debug("cannot give a user access, trying again", "credential", key.Name, "err", err)
	}
	return after
}

// able are the modes that the agent has the rights for.
func (a *agent) able() []v1alpha1.AccessMode {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.rights.able)
}
