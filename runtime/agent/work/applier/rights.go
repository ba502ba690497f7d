package applier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"
	klog "k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Rights asks what executors may do in the managed cluster.
type Rights struct {
	reviews client.Client     // for access reviews
	as      dynamic.Interface // for what is tried as an account, which the context names
	grants  *Grants           // nil without the gate ExecutorValidatingCaches
}

// NewRights makes the access to rights. Answers are remembered in grants, which
// may be nil. Its error is about a configuration that can't be used.
func NewRights(reviews client.Client, config *rest.Config, grants *Grants) (*Rights, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return impersonator{next} })
	as, err := dynamic.NewForConfig(config)
	return &Rights{reviews: reviews, as: as, grants: grants}, err
}

// accountKey is where a context holds the account that a request is sent as.
type accountKey struct{}

// impersonator sends each request as the account in its context, and none without.
type impersonator struct{ next http.RoundTripper }

func (i impersonator) RoundTrip(r *http.Request) (*http.Response, error) {
	user, ok := r.Context().Value(accountKey{}).(*account)
	if !ok {
		return nil, errors.New("send a request as an account: none is named")
	}
	as := transport.ImpersonationConfig{UserName: user.name, Groups: user.groups}
	return transport.NewImpersonatingRoundTripper(as, i.next).RoundTrip(r)
}

// account is a user of the managed cluster.
type account struct {
	name   string
	groups []string
}

// accountOf is the user that an executor stands for. It is nil without one: such
// works are carried out with the agent's own rights, and nothing is asked.
func accountOf(executor *workv1.ManifestWorkExecutor) (*account, error) {
	if executor == nil {
		return nil, nil
	}
	name, err := executor.UserName()
	if err != nil {
		return nil, manifest.Denied(err.Error())
	}
	return &account{name, []string{
		"system:serviceaccounts", "system:authenticated",
		"system:serviceaccounts:" + executor.Subject.ServiceAccount.Namespace,
	}}, nil
}

// may asks whether a user may do something with an object.
func (r *Rights) may(
	ctx context.Context, user *account, verb string, gvr schema.GroupVersionResource, namespace, name string,
) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.name, Groups: user.groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource,
			Namespace: namespace, Name: name,
		},
	}}
	asked := grant{user.name, verb, gvr.Group, gvr.Version, gvr.Resource, namespace, name}
	may, err := r.grants.allowed(asked, func() (bool, error) {
		err := r.reviews.Create(ctx, review)
		return review.Status.Allowed && !review.Status.Denied, err
	})
	if err != nil {
		return false, fmt.Errorf("ask whether %s may %s the %s %s: %w",
			user.name, verb, gvr.Resource, klog.KRef(namespace, name).String(), err)
	}
	return may, nil
}

// MayApply asks whether the service account that a work names as its executor
// may apply a manifest, which is also to see what becomes of the object.
func (r *Rights) MayApply(ctx context.Context, m *manifest.Manifest) error {
	if m.Strategy.Type == workv1.UpdateStrategyTypeReadOnly {
		return r.MayRead(ctx, m.Executor, m.GVR, m.Meta.Namespace, m.Meta.Name)
	}
	user, err := accountOf(m.Executor)
	if user == nil {
		return err
	}
	verbs := []string{"create", "update", "patch", "get"}
	if m.Owned {
		verbs = append(verbs, "delete")
	}
	for _, verb := range verbs {
		if err := r.mayDo(ctx, user, verb, m); err != nil {
			return err
		}
	}
	if m.GVR.Group != rbacv1.GroupName {
		return nil
	}
	return r.mayGrant(ctx, user, m)
}

func (r *Rights) mayDo(ctx context.Context, user *account, verb string, m *manifest.Manifest) error {
	may, err := r.may(ctx, user, verb, m.GVR, m.Meta.Namespace, m.Meta.Name)
	if err != nil || may {
		return err
	}
	return manifest.Denied(fmt.Sprintf("not allowed to apply the resource %s %s, %s %s%s",
		m.Meta.Group, m.Meta.Resource, m.Meta.Namespace, m.Meta.Name, manifest.DeniedAdvice))
}

// MayReplace asks whether a work's executor may have an object deleted and made
// again, which is more than to apply it.
func (r *Rights) MayReplace(ctx context.Context, m *manifest.Manifest) error {
	user, err := accountOf(m.Executor)
	if user == nil {
		return err
	}
	return r.mayDo(ctx, user, "delete", m)
}

// MayRead asks whether an object may be reported to a work: whether its executor
// may get it. The agent's own rights to read reach further than any executor's.
func (r *Rights) MayRead(
	ctx context.Context, executor *workv1.ManifestWorkExecutor, gvr schema.GroupVersionResource, namespace, name string,
) error {
	user, err := accountOf(executor)
	if user == nil {
		return err
	}
	may, err := r.may(ctx, user, "get", gvr, namespace, name)
	if err != nil || may {
		return err
	}
	return manifest.Denied(fmt.Sprintf("the executor %s may not get the %s %s%s",
		user.name, gvr.Resource, klog.KRef(namespace, name), manifest.DeniedAdvice))
}

// mayGrant tries, without doing it, whether the executor could create a role or
// binding: users may not grant rights that they don't have.
func (r *Rights) mayGrant(ctx context.Context, user *account, m *manifest.Manifest) error {
	var resource dynamic.ResourceInterface = r.as.Resource(m.GVR)
	if m.Meta.Namespace != "" {
		resource = r.as.Resource(m.GVR).Namespace(m.Meta.Namespace)
	}
	ctx = context.WithValue(ctx, accountKey{}, user)
	_, err := resource.Create(ctx, m.Required, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err):
		return manifest.Denied(fmt.Sprintf(
			"not allowed to apply the resource %s %s, %s %s, permission escalation%s",
			m.Meta.Group, m.Meta.Resource, m.Meta.Namespace, m.Meta.Name, manifest.DeniedAdvice))
	}
	return errors.Join(fmt.Errorf("try whether %s may create the %s %s", user.name, m.Meta.Resource, m.Meta.Name), err)
}

// grant is one question about rights: who may do what to which object.
type grant struct {
	user, verb                                string
	group, version, resource, namespace, name string
}

// settling is for how long after a change answers are not remembered: the API
// server judges by a view of the roles that lags behind, like ours.
const settling = time.Second

// yesAge and noAge are how long answers are remembered when no role changes, as an
// API server remembers those of its webhook: not every authorizer goes by roles.
const (
	yesAge = 5 * time.Minute
	noAge  = 30 * time.Second
)

// answer is one that is remembered for a while.
type answer struct {
	yes   bool
	until time.Time
}

// Grants remembers the answers for a while, and until a role or a binding of the
// cluster changes. It then queues the works that depend on answers, so that a right
// that is given or taken takes effect at once.
type Grants struct {
	client  metadata.Interface
	clock   clock.Clock
	log     *slog.Logger
	notify  func()
	changes chan struct{}

	mu      sync.Mutex
	answers map[grant]answer
	swept   time.Time // when the answers that are too old were last removed
	trusted bool      // all watches are up, and nothing has changed lately
	forgets int       // how often all answers were forgotten
}

// NewGrants makes grants that remember nothing until they are started. notify
// is called when rights may have changed.
func NewGrants(client metadata.Interface, clock clock.Clock, log *slog.Logger, notify func()) *Grants {
	return &Grants{
		client: client, clock: clock, log: log, notify: notify,
		changes: make(chan struct{}, 1), answers: map[grant]answer{},
	}
}

// Start watches roles and bindings until ctx ends. Until it sees them all,
// nothing is remembered.
func (g *Grants) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	var synced []cache.InformerSynced
	for _, resource := range []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"} {
		informer := watches.Identities(g.client, rbacv1.SchemeGroupVersion.WithResource(resource))
		_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			g.log.Debug("watching who may do what", "resource", resource, "err", err)
			g.changed()
		})
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { g.changed() },
			UpdateFunc: func(any, any) { g.changed() },
			DeleteFunc: func(any) { g.changed() },
		})
		synced = append(synced, informer.HasSynced)
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		g.follow(ctx)
	}
	return nil
}

// follow queues the works at each change, and once more when nothing has changed
// for a while.
func (g *Grants) follow(ctx context.Context) {
	settled := g.clock.NewTimer(settling)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changes:
			settled.Reset(settling)
		case <-settled.C():
			g.trust(true)
		}
		g.notify()
	}
}

func (g *Grants) changed() {
	g.trust(false)
	select {
	case g.changes <- struct{}{}:
	default:
	}
}

// trust forgets all answers, and says whether the next ones may be remembered.
func (g *Grants) trust(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.answers)
	g.trusted = yes
	g.forgets++
}

// allowed answers a question, by asking unless the answer is known. A nil grants
// always asks.
func (g *Grants) allowed(q grant, ask func() (bool, error)) (bool, error) {
	if g == nil {
		return ask()
	}
	g.mu.Lock()
	known := g.answers[q]
	before := g.forgets
	g.mu.Unlock()
	now := g.clock.Now()
	if now.Before(known.until) {
		return known.yes, nil
	}
	yes, err := ask()
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// An answer to a question from before a change may be one from before it, too.
	if g.trusted && g.forgets == before {
		g.remember(q, yes, now)
	}
	return yes, nil
}

// remember remembers an answer, and removes those that are too old, now and then.
// It is called with g.mu held.
func (g *Grants) remember(q grant, yes bool, now time.Time) {
	age := noAge
	if yes {
		age = yesAge
	}
	g.answers[q] = answer{yes, now.Add(age)}
	if now.Sub(g.swept) >= yesAge {
		g.swept = now
		maps.DeleteFunc(g.answers, func(_ grant, a answer) bool { return !now.Before(a.until) })
	}
}
