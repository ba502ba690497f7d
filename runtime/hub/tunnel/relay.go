// Package tunnel is the hub's part in tunnels to clusters that nobody else reaches: it
// decides who may open one, has the cluster's agent come to the other end, and hands on
// their packets, which it can't read. The package internal/tunnel has the two ends.
//
// The hub keeps no state of a tunnel but its entry in the ClusterCredential, by which the
// agent knows of it, and the two WebSockets. When the hub restarts, both ends connect again,
// to any of its replicas. A tunnel ends when one of its ends says so, when the user's end is
// gone for long, and as soon as the access by which it was opened, or the right to open it,
// is withdrawn.
package tunnel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Options are what a relay needs. All fields are required but Replica.
type Options struct {
	// Client reads from the server, and writes.
	Client client.Client
	// Authorizer decides about the rights of users while their tunnels are open.
	Authorizer authorizer.UnconditionalAuthorizer
	// Replica is the name of this hub among several; empty where it is alone.
	Replica string
	Limits  Limits
	Clock   clock.WithTicker
	Log     logr.Logger
}

// Relay joins the two ends of tunnels. It is safe for concurrent use. Make it with New.
type Relay struct {
	Options

	mu       sync.Mutex
	sessions map[key]*session
	entries  map[types.NamespacedName][]v1alpha1.Tunnel // of credentials, as they are stored
	shares   map[share]*allotment
	openings budget.Recent[string] // their users
	closed   bool
}

// key is one tunnel of a credential.
type key struct {
	credential types.NamespacedName
	id         string
}

// New makes a relay. Its handler needs Follow and Run.
func New(o Options) *Relay {
	return &Relay{
		Options: o, sessions: map[key]*session{},
		entries: map[types.NamespacedName][]v1alpha1.Tunnel{}, shares: map[share]*allotment{},
		openings: budget.Recent[string]{Within: time.Minute},
	}
}

// take returns the session of an entry, and makes it where this hub has none.
func (r *Relay) take(k key, request v1alpha1.RequestReference, entry v1alpha1.Tunnel) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("the hub is stopping")
	}
	s := r.sessions[k]
	if s == nil {
		s = &session{key: k, entry: entry, cluster: k.credential.Namespace, request: request}
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.limits = []*allotment{
			r.allot(share{user: entry.User}, r.Limits.UserRate),
			r.allot(share{cluster: s.cluster}, r.Limits.ClusterRate),
		}
		s.lonely = r.Clock.NewTimer(tunnel.Silence)
		go r.watchOver(s)
		r.sessions[k] = s
		openTunnels.Inc()
	}
	return s, nil
}

// isAnother notes which process is the agent's end, and reports whether it is another than
// before. The connections of the user are gone with the earlier one.
func (r *Relay) isAnother(s *session, start string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := s.agent
	s.agent = start
	return before != "" && before != start
}

// watchOver ends a session whose user's end is missing for too long.
func (r *Relay) watchOver(s *session) {
	select {
	case <-s.lonely.C():
		r.end(s, fmt.Sprintf("the user's side has been gone for %s", tunnel.Silence))
	case <-s.ctx.Done():
	}
}

// drop takes a session out of the relay. It reports whether it was there.
func (r *Relay) drop(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.key] != s {
		return false
	}
	delete(r.sessions, s.key)
	openTunnels.Dec()
	for _, l := range s.limits {
		r.release(l)
	}
	s.over.Store(true)
	return true
}

// end ends a session for good, and says why to both ends.
func (r *Relay) end(s *session, why string) {
	s.why.CompareAndSwap(nil, &why)
	if !r.drop(s) {
		return
	}
	go s.close(websocket.StatusNormalClosure, why)
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if _, err := r.remove(ctx, s.key.credential, r.entryOf(s)); err != nil {
		r.Log.Error(err, "take the entry of a tunnel back", "cluster", s.cluster, "user", s.entry.User)
	}
	var carried int64
	for i := range s.ends {
		e := &s.ends[i]
		e.mu.Lock()
		carried += e.bytes
		e.mu.Unlock()
	}
	note := fmt.Sprintf("user %q, cluster %q, tunnel %s, since %s, %s, %d bytes: %s", s.entry.User, s.cluster,
		s.key.id, s.entry.Since.UTC().Format(time.RFC3339), r.Clock.Since(s.entry.Since.Time).Round(time.Second),
		carried, why)
	if err := r.record(ctx, s.request, muster.EventTunnelClosed, note); err != nil {
		r.Log.Error(err, "record the end of a tunnel", "cluster", s.cluster, "user", s.entry.User)
	}
}

// writeTimeout is how long the end of a tunnel may take to be written down.
const writeTimeout = 30 * time.Second

// record leaves an event on the access request.
func (r *Relay) record(ctx context.Context, of v1alpha1.RequestReference, reason, note string) error {
	source := event.Source{Controller: muster.GroupName + "/tunnel", Instance: "muster-hub", Clock: r.Clock}
	e := source.New(corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "AccessRequest",
		Namespace: of.Namespace, Name: of.Name, UID: of.UID,
	}, event.What{Type: corev1.EventTypeNormal, Reason: reason, Action: "Tunnel", Note: note})
	e.GenerateName = "tunnel-"
	return client.IgnoreNotFound(r.Client.Create(ctx, e)) // the namespace may be gone
}

// contention is how the entries of a credential are written while the ends of many tunnels come
// to several replicas at once, as after a crash of one: for some seconds, and then the end tries
// again.
var contention = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Jitter: 0.5, Steps: 12}

// change changes the entries of a credential as they are stored now.
func (r *Relay) change(
	ctx context.Context,
	name types.NamespacedName,
	change func(*v1alpha1.ClusterCredential) bool,
) (*v1alpha1.ClusterCredential, error) {
	c := &v1alpha1.ClusterCredential{}
	err := retry.RetryOnConflict(contention, func() error {
		if err := r.Client.Get(ctx, name, c); err != nil {
			return client.IgnoreNotFound(err)
		}
		_, err := patch.Object(ctx, r.Client, c, func() bool { return change(c) })
		return err
	})
	if apierrors.IsConflict(err) {
		err = apierrors.NewServiceUnavailable("many tunnels of this access change at once: try again")
	}
	return c, err
}

// remove removes the entries that a function selects.
func (r *Relay) remove(
	ctx context.Context, name types.NamespacedName, selected func(v1alpha1.Tunnel) bool,
) (*v1alpha1.ClusterCredential, error) {
	return r.change(ctx, name, func(c *v1alpha1.ClusterCredential) bool {
		before := len(c.Spec.Tunnels)
		c.Spec.Tunnels = slices.DeleteFunc(c.Spec.Tunnels, selected)
		return len(c.Spec.Tunnels) != before
	})
}

// entryOf selects the entry of a session, unless the user's end has gone over to another
// replica.
func (r *Relay) entryOf(s *session) func(v1alpha1.Tunnel) bool {
	return func(t v1alpha1.Tunnel) bool { return t.ID == s.key.id && t.Replica == r.Replica }
}

// those are the sessions that a function selects.
func (r *Relay) those(selected func(*session) bool) []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*session
	for _, s := range r.sessions {
		if selected(s) {
			all = append(all, s)
		}
	}
	return all
}

func (r *Relay) endThose(why string, selected func(*session) bool) {
	for _, s := range r.those(selected) {
		go r.end(s, why)
	}
}

// Run closes the connections when ctx ends, so that both ends come to another hub, or to
// this one once it is back.
func (r *Relay) Run(ctx context.Context) {
	<-ctx.Done()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range r.those(func(*session) bool { return true }) {
		if r.drop(s) {
			closing.Go(func() { s.close(websocket.StatusGoingAway, "the hub is stopping") })
		}
	}
	closing.Wait()
}

// Follow ends tunnels when what they depend on changes, from now on. The informers are of
// AccessRequests and ClusterCredentials.
func (r *Relay) Follow(requests, credentials Informer) error {
	_, err := requests.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) {
			if a, ok := o.(*v1alpha1.AccessRequest); ok && a.HasEnded() {
				r.endThose("access has ended", func(s *session) bool { return s.request.UID == a.UID })
			}
		},
		DeleteFunc: func(o any) {
			if a, ok := deleted(o).(*v1alpha1.AccessRequest); ok {
				r.endThose("access was withdrawn", func(s *session) bool { return s.request.UID == a.UID })
			}
		},
	})
	if err != nil {
		return err
	}
	_, err = credentials.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.credentialIs(nil, o) },
		UpdateFunc: r.credentialIs,
		DeleteFunc: func(o any) {
			c, ok := deleted(o).(*v1alpha1.ClusterCredential)
			if !ok {
				return
			}
			name := client.ObjectKeyFromObject(c)
			r.mu.Lock()
			delete(r.entries, name)
			r.mu.Unlock()
			r.endThose("access was withdrawn", func(s *session) bool { return s.key.credential == name })
		},
	})
	return err
}

// Informer is what Follow needs of an informer.
type Informer interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

// deleted is the object of an informer's news of its deletion.
func deleted(o any) any {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return last.Obj
	}
	return o
}

// credentialIs notes the entries of a credential, and ends the tunnels whose entry somebody
// has removed.
func (r *Relay) credentialIs(before, now any) {
	c, ok := now.(*v1alpha1.ClusterCredential)
	if !ok {
		return
	}
	name := client.ObjectKeyFromObject(c)
	r.mu.Lock()
	if len(c.Spec.Tunnels) > 0 {
		r.entries[name] = c.Spec.Tunnels
	} else {
		delete(r.entries, name)
	}
	r.mu.Unlock()
	old, ok := before.(*v1alpha1.ClusterCredential)
	if !ok {
		return
	}
	for _, t := range old.Spec.Tunnels {
		is := func(s *session) bool { return s.key == key{name, t.ID} }
		i := slices.IndexFunc(c.Spec.Tunnels, func(now v1alpha1.Tunnel) bool { return now.ID == t.ID })
		switch {
		case i < 0:
			r.endThose("its entry in the cluster credential was removed", is)
		case t.Replica == r.Replica && c.Spec.Tunnels[i].Replica != r.Replica:
			// The agent's end has to follow the user's.
			for _, s := range r.those(is) {
				if r.drop(s) {
					go s.close(websocket.StatusGoingAway, "the user's side is connected to another replica of the hub")
				}
			}
		}
	}
}

func hasEntry(c *v1alpha1.ClusterCredential, id string) bool {
	return slices.ContainsFunc(c.Spec.Tunnels, func(t v1alpha1.Tunnel) bool { return t.ID == id })
}

// RightsChanged ends the tunnels of users who have lost the right to them.
func (r *Relay) RightsChanged(ctx context.Context) {
	for _, s := range r.those(func(s *session) bool { return s.user.Load() != nil }) {
		if !r.mayGoOn(ctx, s) {
			go r.end(s, fmt.Sprintf("the user has no right to a tunnel any more: the verb %s on %s",
				muster.VerbTunnel, requests))
		}
	}
}

// mayGoOn reports whether a user still has the right to a tunnel. An authorizer that fails
// takes no right away.
func (r *Relay) mayGoOn(ctx context.Context, s *session) bool {
	decision, _, err := r.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: s.user.Load(), Verb: muster.VerbTunnel,
		APIGroup: muster.GroupName, APIVersion: v1alpha1.GroupVersion.Version,
		Resource: requests, Namespace: s.request.Namespace, Name: s.request.Name, ResourceRequest: true,
	})
	return err != nil || decision == authorizer.DecisionAllow
}
