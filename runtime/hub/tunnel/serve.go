package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

const (
	requests    = "accessrequests"
	credentials = "clustercredentials"
)

// Verb makes the connection to a tunnel a request with the verb of its own, so that no role
// allows it that doesn't name it.
func Verb(info *request.RequestInfo) {
	if info.IsResourceRequest && info.APIGroup == muster.GroupName && info.Subresource == tunnel.Subresource &&
		(info.Resource == requests || info.Resource == credentials) {
		info.Verb, info.Subresource = muster.VerbTunnel, ""
	}
}

// Matches reports whether a request that was authorized is for the relay.
func Matches(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	return ok && info.APIGroup == muster.GroupName && info.Verb == muster.VerbTunnel
}

// ServeHTTP takes one end of a tunnel.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx := req.Context()
	info, _ := request.RequestInfoFrom(ctx)
	who, ok := request.UserFrom(ctx)
	id := req.URL.Query().Get("id")
	from := ofAgent
	if info.Resource == requests {
		from = ofUser
	}
	var s *session
	var err error
	switch {
	case req.Method == http.MethodDelete && from == ofAgent && tunnel.IsID(id):
		if err := r.giveUp(ctx, types.NamespacedName{Namespace: info.Namespace, Name: info.Name}, id); err != nil {
			refuse(w, err)
		}
		return
	case req.Method != http.MethodGet:
		err = apierrors.NewMethodNotSupported(resource(info.Resource), req.Method)
	case !ok:
		err = apierrors.NewUnauthorized("log in with a certificate or a token")
	case !strings.EqualFold(req.Header.Get("Upgrade"), "websocket"):
		err = &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUpgradeRequired, Reason: metav1.StatusReasonBadRequest,
			Message: "a tunnel is a WebSocket: use muster access proxy",
		}}
	case !tunnel.IsID(id):
		err = apierrors.NewBadRequest(fmt.Sprintf("the parameter id is %q, and has to be 32 hexadecimal digits", id))
	case from == ofUser:
		s, err = r.admitUser(ctx, types.NamespacedName{Namespace: info.Namespace, Name: info.Name}, id, who)
	default:
		s, err = r.admitAgent(ctx, types.NamespacedName{Namespace: info.Namespace, Name: info.Name}, id)
		if err == nil && r.isAnother(s, req.URL.Query().Get("start")) {
			r.end(s, "the cluster's agent has restarted")
			err = gone(id)
		}
	}
	if err != nil {
		refuse(w, err)
		return
	}
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{Subprotocols: []string{tunnel.Subprotocol}})
	if err != nil {
		return // it has answered
	}
	if conn.Subprotocol() != tunnel.Subprotocol {
		_ = conn.Close(websocket.StatusPolicyViolation, "this hub speaks "+tunnel.Subprotocol)
		return
	}
	// Beside the handler: what the API server has wrapped around it takes ten times the
	// memory of what carries packets.
	go func() {
		if err := recovery.Call(func() error { r.carry(s, from, conn); return nil }); err != nil {
			r.end(s, err.Error())
		}
	}()
}

func resource(name string) schema.GroupResource {
	return schema.GroupResource{Group: muster.GroupName, Resource: name}
}

// giveUp removes the entry of a tunnel whose agent has heard nothing of the user's end, as of
// a replica that is no more.
func (r *Relay) giveUp(ctx context.Context, name types.NamespacedName, id string) error {
	var removed *v1alpha1.Tunnel
	c, err := r.remove(ctx, name, func(t v1alpha1.Tunnel) bool {
		if t.ID == id {
			removed = &t
		}
		return t.ID == id
	})
	if err != nil || removed == nil || removed.Replica == r.Replica { // whose session leaves the record
		return err
	}
	return r.record(ctx, c.Spec.AccessRequest, muster.EventTunnelClosed, fmt.Sprintf(
		"user %q, cluster %q, tunnel %s, since %s: the cluster's agent has heard nothing of the user's side, "+
			"and its replica of the hub is gone",
		removed.User, name.Namespace, id, removed.Since.UTC().Format(time.RFC3339)))
}

func gone(id string) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("the tunnel %s has ended", id))
}

func refuse(w http.ResponseWriter, err error) {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	// The next attempt may reach another replica, by a connection of its own.
	w.Header().Set("Connection", "close")
	extension.Refuse(w, status)
}

// admitUser decides whether a user may have a tunnel by an access request, and writes the
// entry by which the agent comes to the other end. The right to the verb has been checked.
func (r *Relay) admitUser(
	ctx context.Context,
	name types.NamespacedName,
	id string,
	who user.Info,
) (*session, error) {
	a := &v1alpha1.AccessRequest{}
	if err := r.Client.Get(ctx, name, a); err != nil {
		return nil, err
	}
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(resource(requests), name.Name, fmt.Errorf(format, args...))
	}
	issued := meta.FindStatusCondition(a.Status.Conditions, muster.ConditionIssued)
	switch {
	case who.GetName() != a.Spec.User && who.GetName() != a.Spec.Requester.Username:
		return nil, apierrors.NewForbidden(resource(requests), name.Name, fmt.Errorf(
			"it gives access to the user %q, and you are %q", a.Spec.User, who.GetName()))
	case a.HasEnded():
		return nil, conflict("access has ended: ask for it again")
	case issued == nil || issued.Status != metav1.ConditionTrue:
		return nil, conflict("it gives no access yet: wait until its condition %s is True", muster.ConditionIssued)
	}
	mc := &clusterv1.ManagedCluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: a.Spec.ManagedCluster}, mc); err != nil {
		return nil, err
	}
	k := key{types.NamespacedName{Namespace: mc.Name, Name: muster.Credential(string(a.UID))}, id}
	of := v1alpha1.RequestReference{Namespace: a.Namespace, Name: a.Name, UID: a.UID}
	entry := v1alpha1.Tunnel{ID: id, User: who.GetName(), Since: metav1.NewTime(r.Clock.Now()), Replica: r.Replica}
	// It is there before its entry, so that it ends with what it depends on whenever that
	// changes.
	s, err := r.take(k, of, entry)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	isNew, err := r.enter(ctx, k, entry, func(c *v1alpha1.ClusterCredential) error {
		available := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
		switch {
		case mc.Annotations[muster.TunnelAnnotation] == "":
			return conflict("the agent of the cluster %s takes no tunnels: start it with --user-access --tunnels",
				mc.Name)
		case available != nil && available.Status != metav1.ConditionTrue:
			return conflict("the cluster %s is not available, so its agent can't come to the other end: %s",
				mc.Name, available.Message)
		}
		if err := r.overLimit(c, id, entry.User); err != nil {
			return err
		}
		return r.admitOpening(entry.User)
	})
	if err == nil && isNew {
		note := fmt.Sprintf("user %q, cluster %q, tunnel %s", entry.User, mc.Name, id)
		err = r.record(ctx, of, muster.EventTunnelOpened, note) // no tunnel opens without a record
	}
	if err == nil {
		s.user.Store(
			&user.DefaultInfo{Name: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra()},
		)
		if s.over.Load() || !r.mayGoOn(ctx, s) { // since the request was admitted
			err = conflict("access has ended: ask for it again")
			if why := s.why.Load(); why != nil { // such as the agent's refusal
				err = conflict("the tunnel has ended: %s: open another one when that has changed", *why)
			}
		}
	}
	if err != nil {
		r.abandon(s, err)
		return nil, err
	}
	return s, nil
}

// admitOpening bounds how often a user opens tunnels: each is two writes and two events.
func (r *Relay) admitOpening(name string) error {
	return r.openings.Admit(r.Clock.Now(), name, false, func(before []string) error {
		count := 0
		for _, of := range before {
			if of == name {
				count++
			}
		}
		if count >= r.Limits.PerMinute {
			return apierrors.NewTooManyRequests(fmt.Sprintf(
				"the user %q has opened %d tunnels within a minute, and no more may be: keep one open",
				name, count), retrySeconds)
		}
		return nil
	})
}

// retrySeconds is when to try again who has opened many tunnels.
const retrySeconds = 5

// abandon ends a session whose user's end was not admitted, unless it is connected. One that
// has not been open leaves no record.
func (r *Relay) abandon(s *session, why error) {
	switch {
	case s.ends[ofUser].conn.Load() != nil:
	case s.user.Load() != nil:
		r.end(s, why.Error())
	case r.drop(s):
		s.cancel()
		_, _ = r.remove(context.WithoutCancel(s.ctx), s.key.credential, r.entryOf(s))
	}
}

// enter writes the entry of a tunnel, if it is admitted, or that its user's end has come to
// this replica.
func (r *Relay) enter(
	ctx context.Context, k key, entry v1alpha1.Tunnel, admit func(*v1alpha1.ClusterCredential) error,
) (isNew bool, _ error) {
	var refused error
	c, err := r.change(ctx, k.credential, func(c *v1alpha1.ClusterCredential) bool {
		isNew, refused = false, nil
		for i := range c.Spec.Tunnels {
			have := &c.Spec.Tunnels[i]
			if have.ID != entry.ID {
				continue
			}
			if have.User != entry.User {
				refused = apierrors.NewForbidden(
					resource(requests),
					k.credential.Name,
					errors.New("another user has opened this tunnel"),
				)
			}
			moved := refused == nil && have.Replica != entry.Replica
			if moved {
				have.Replica = entry.Replica
			}
			return moved
		}
		if refused = admit(c); refused != nil {
			return false
		}
		isNew = true
		c.Spec.Tunnels = append(c.Spec.Tunnels, entry)
		return true
	})
	switch {
	case err != nil:
		return false, err
	case refused != nil:
		return false, refused
	case !hasEntry(c, entry.ID):
		return false, apierrors.NewConflict(
			resource(requests),
			k.credential.Name,
			errors.New("access has ended: ask for it again"),
		)
	}
	return isNew, nil
}

// overLimit says which limit one more tunnel of a user would exceed, or nil. Tunnels of this
// replica count before their entries are there.
func (r *Relay) overLimit(c *v1alpha1.ClusterCredential, id, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := client.ObjectKeyFromObject(c)
	open := map[key]string{} // their users
	for at, entries := range r.entries {
		for _, t := range entries {
			if at != own {
				open[key{at, t.ID}] = t.User
			}
		}
	}
	for k, s := range r.sessions {
		open[k] = s.entry.User
	}
	for _, t := range c.Spec.Tunnels {
		open[key{own, t.ID}] = t.User
	}
	delete(open, key{own, id})
	byAccess, ofUser, ofCluster := 0, 0, 0
	for k, of := range open {
		if of == name {
			ofUser++
		}
		if k.credential.Namespace == own.Namespace {
			ofCluster++
		}
		if k.credential == own {
			byAccess++
		}
	}
	for _, limit := range []struct {
		have, most int
		of         string
	}{
		{byAccess, r.Limits.PerAccess, "by this access request"},
		{ofUser, r.Limits.PerUser, fmt.Sprintf("of the user %q", name)},
		{ofCluster, r.Limits.PerCluster, fmt.Sprintf("to the cluster %s", c.Namespace)},
	} {
		if limit.have >= limit.most {
			return apierrors.NewTooManyRequestsError(
				fmt.Sprintf("%d tunnels are open %s, and no more may be: close one", limit.have, limit.of),
			)
		}
	}
	return nil
}

// admitAgent takes the agent's end. That the cluster's agent may read its credentials was
// checked.
func (r *Relay) admitAgent(ctx context.Context, name types.NamespacedName, id string) (*session, error) {
	c := &v1alpha1.ClusterCredential{}
	if err := r.Client.Get(ctx, name, c); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Spec.Tunnels, func(t v1alpha1.Tunnel) bool { return t.ID == id })
	if i < 0 {
		return nil, gone(id)
	}
	entry := c.Spec.Tunnels[i]
	if entry.Replica != r.Replica {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMisdirectedRequest, Reason: metav1.StatusReasonUnknown,
			Message: fmt.Sprintf(
				"the user's side is connected to the replica %s of the hub: try again, by another connection",
				entry.Replica,
			),
		}}
	}
	s, err := r.take(key{name, id}, c.Spec.AccessRequest, entry)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return s, nil
}
