// Package snapshot serves, in one answer, all that placements are decided by, so that
// a client can predict what a placement would select. Lists of the same objects cost
// several times as much for large fleets: the records of field managers are most of
// them, and each object is read from the store's format and written again.
//
//	GET /fleet/snapshot
//
// The user needs the right to list each of the kinds in it, in all namespaces. The
// answer is from the controllers' cache, and may miss what was written a moment ago.
package snapshot

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/authorization"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// timeout is how long an answer may take, the wait for its turn included.
const timeout = 10 * time.Second

// kinds are those whose objects are in a snapshot.
func kinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		clusterv1.GroupVersion.WithResource("managedclusters"),
		clusterv1beta2.GroupVersion.WithResource("managedclustersets"),
		clusterv1beta2.GroupVersion.WithResource("managedclustersetbindings"),
		clusterv1beta1.GroupVersion.WithResource("placementdecisions"),
		clusterv1alpha1.GroupVersion.WithResource("addonplacementscores"),
	}
}

// Authorizer lets everybody reach the handler, which judges by itself.
func Authorizer() extension.Authorizer {
	return extension.Authorizer{Name: "FleetSnapshot", Authorizer: authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if !a.IsResourceRequest() && a.GetPath() == hubinfo.SnapshotPath {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})}
}

// Handler answers requests in whose context Kubernetes' authentication has put the
// user.
type Handler struct {
	client client.Client
	clock  clock.PassiveClock
	// turn is held by the one answer that is being written: it is large.
	turn chan struct{}
}

// NewHandler makes the handler. The client reads from a cache without records of
// field managers, and asks for the rights of others.
func NewHandler(c client.Client, clk clock.PassiveClock) *Handler {
	return &Handler{client: c, clock: clk, turn: make(chan struct{}, 1)}
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, end := context.WithTimeout(r.Context(), timeout)
	defer end()
	if status, problem := h.refusal(ctx, r); problem != nil {
		fail(w, status, problem)
		return
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("other snapshots have been written for %s: try again later", timeout))
		return
	}
	fleet := &scheduling.Snapshot{}
	if err := fleet.Take(ctx, h.list, nil, h.clock.Now()); err != nil {
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out := io.Writer(w)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && !isLocal(r.RemoteAddr) {
		w.Header().Set("Content-Encoding", "gzip")
		packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // The level is a valid one.
		defer func() { _ = packed.Close() }()
		out = packed
	}
	if err := json.NewEncoder(out).Encode(fleet); err != nil {
		logging.FromContext(r.Context()).Debug("write a snapshot of the fleet", "err", err)
	}
}

// refusal is why the user gets no snapshot.
func (h *Handler) refusal(ctx context.Context, r *http.Request) (status int, problem error) {
	who, ok := request.UserFrom(r.Context())
	switch {
	case !ok || who.GetName() == user.Anonymous:
		return http.StatusUnauthorized, fmt.Errorf("a snapshot of the fleet is for users who have logged in: use a certificate or a token")
	case r.Method != http.MethodGet || r.URL.Path != hubinfo.SnapshotPath:
		return http.StatusMethodNotAllowed, fmt.Errorf("%s %s is not served: use GET %s", r.Method, r.URL.Path, hubinfo.SnapshotPath)
	}
	for _, kind := range kinds() {
		right := authorizationv1.ResourceAttributes{Verb: "list", Group: kind.Group, Version: kind.Version, Resource: kind.Resource}
		allowed, reason, err := authorization.Allowed(ctx, h.client, who, right)
		if err != nil {
			return http.StatusInternalServerError, err
		}
		if !allowed {
			return http.StatusForbidden, fmt.Errorf("user %q may not list %s in all namespaces, which are part of a snapshot of the fleet. %s", who.GetName(), kind.GroupResource(), reason)
		}
	}
	return 0, nil
}

// list implements scheduling.Lister. The objects are the cache's own, as they are
// only read.
func (h *Handler) list(ctx context.Context, list runtime.Object, namespace string) error {
	return h.client.List(ctx, list.(client.ObjectList), client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
}

// isLocal reports whether a client is on this machine, where compressing costs more
// than it saves.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && net.ParseIP(host).IsLoopback()
}

// fail answers with an error as the API does.
func fail(w http.ResponseWriter, status int, problem error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: problem.Error(), Code: int32(status), Reason: reasonOf(status),
	})
}

// reasonOf is the reason by which clients of the API know a status.
func reasonOf(status int) metav1.StatusReason {
	switch status {
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusMethodNotAllowed:
		return metav1.StatusReasonMethodNotAllowed
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	}
	return metav1.StatusReasonInternalError
}
