package hubmade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/authorization"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// retryAfter is when to ask again for a kubeconfig that is not complete, in seconds.
const retryAfter = 5

// Pending is the answer while clusters are missing.
type Pending struct {
	metav1.TypeMeta `json:",inline"`
	// Selected is how many clusters the cloud has, and Ready how many of them have
	// answered.
	Selected int `json:"selected"`
	Ready    int `json:"ready"`
	// Missing are the others.
	Missing []MissingCluster `json:"missing"`
}

// MissingCluster is a cluster that has not answered.
type MissingCluster struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Handler answers GET …/logicalclouds/NAME/kubeconfig?user=USER.
type Handler struct {
	client client.Client
	clock  clock.PassiveClock
	vault  *Vault
	hubID  func(context.Context) (string, error)
	// refusals bounds the events about refusals.
	refusals flowcontrol.PassiveRateLimiter
}

// NewHandler makes the handler. The client reads from the server.
func NewHandler(c client.Client, clk clock.PassiveClock, v *Vault, hubID func(context.Context) (string, error)) *Handler {
	return &Handler{client: c, clock: clk, vault: v, hubID: hubID, refusals: flowcontrol.NewTokenBucketPassiveRateLimiter(refusalsPerSecond, refusalsAtOnce)}
}

// Matches reports whether a request that was authorized is for the handler.
func Matches(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	return ok && info.IsResourceRequest && info.APIGroup == muster.GroupName && info.Resource == "logicalclouds" && info.Subresource == muster.KubeconfigSubresource
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	body, pending, err := h.answer(r)
	switch {
	case err != nil:
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			status = apierrors.NewInternalError(err)
		}
		of := status.Status()
		if of.Code == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodGet)
		}
		of.Kind, of.APIVersion = "Status", "v1"
		writeJSON(w, r, int(of.Code), of)
	case pending != nil:
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		writeJSON(w, r, http.StatusAccepted, pending)
	default:
		w.Header().Set("Content-Type", "application/yaml")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body) // the client may be gone
	}
}

func writeJSON(w http.ResponseWriter, r *http.Request, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		logging.FromContext(r.Context()).Debug("answer a request for a kubeconfig", "err", err)
	}
}

func (h *Handler) answer(r *http.Request) ([]byte, *Pending, error) {
	ctx := r.Context()
	resource := schema.GroupResource{Group: muster.GroupName, Resource: "logicalclouds/" + muster.KubeconfigSubresource}
	info, _ := request.RequestInfoFrom(ctx)
	who, ok := request.UserFrom(ctx)
	switch {
	case r.Method != http.MethodGet:
		return nil, nil, apierrors.NewMethodNotSupported(resource, strings.ToLower(r.Method))
	case !ok:
		return nil, nil, apierrors.NewUnauthorized("log in with a certificate or a token")
	}
	name := r.URL.Query().Get("user")
	if name == "" {
		name = who.GetName()
	}
	if err := h.mayBe(ctx, who, name); err != nil {
		h.refused(ctx, &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: info.Namespace, Name: info.Name}}, who.GetName(), name, err)
		return nil, nil, apierrors.NewForbidden(resource, info.Name, err)
	}
	lc := &v1alpha1.LogicalCloud{}
	if err := h.client.Get(ctx, client.ObjectKey{Namespace: info.Namespace, Name: info.Name}, lc); err != nil {
		return nil, nil, err
	}
	switch {
	case !lc.DeletionTimestamp.IsZero():
		return nil, nil, apierrors.NewConflict(resource, lc.Name, errors.New("the logical cloud is being deleted"))
	case lc.Spec.Access.KeyPolicy != v1alpha1.KeyHubMade:
		return nil, nil, apierrors.NewConflict(resource, lc.Name,
			errors.New("the users of this logical cloud hold their keys themselves (spec.access.keyPolicy is UserHeld): use `muster access kubeconfig`"))
	case !slices.Contains(Users(lc), name):
		err := fmt.Errorf("no grant of the logical cloud names the user %q; the hub makes keys for users, not for the members of groups", name)
		h.refused(ctx, lc, who.GetName(), name, err)
		return nil, nil, apierrors.NewForbidden(resource, lc.Name, err)
	}
	entries, handed, pending, err := h.gather(ctx, lc, name)
	if err != nil || pending != nil {
		return nil, pending, err
	}
	body, err := useraccess.Kubeconfig(entries, lc.Spec.Namespace.Name)
	if err != nil {
		return nil, nil, err
	}
	// No kubeconfig leaves the hub without a record of it.
	if err := h.record(ctx, lc, who.GetName(), name, handed); err != nil {
		return nil, nil, err
	}
	return body, nil, nil
}

// mayBe checks that somebody may have the kubeconfig of a user: the own one, or
// that of a user it may impersonate.
func (h *Handler) mayBe(ctx context.Context, who user.Info, name string) error {
	if name == who.GetName() {
		return nil
	}
	asked := authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: name}
	if namespace, account, err := serviceaccount.SplitUsername(name); err == nil {
		asked.Resource, asked.Namespace, asked.Name = "serviceaccounts", namespace, account
	}
	allowed, _, err := authorization.Allowed(ctx, h.client, who, asked)
	if err != nil {
		return err
	}
	if !allowed {
		return fmt.Errorf("user %q may not have the kubeconfig of user %q: the verb impersonate on %s %q is missing; leave user out for the own one",
			who.GetName(), name, asked.Resource, asked.Name)
	}
	return nil
}

// gather finds the way into each cluster, or which ones are missing. handed says what
// is handed out.
func (h *Handler) gather(ctx context.Context, lc *v1alpha1.LogicalCloud, name string) (entries []useraccess.Entry, handed []string, pending *Pending, err error) {
	var placements []string
	for _, p := range lc.Spec.Placements {
		placements = append(placements, p.Name)
	}
	selected, err := selection.Of(ctx, h.client, lc.Namespace, placements)
	if err != nil {
		return nil, nil, nil, err
	}
	requests, err := Requests(ctx, h.client, lc)
	if err != nil {
		return nil, nil, nil, err
	}
	ring, err := h.vault.Get(ctx, lc, name)
	if err != nil {
		return nil, nil, nil, err
	}
	hubID, err := h.hubID(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	have := byHolder(requests)
	missing := []MissingCluster{}
	for _, cluster := range slices.Sorted(maps.Keys(selected.Clusters)) {
		if !selected.Clusters[cluster].Spec.AcceptsClient() {
			missing = append(missing, MissingCluster{cluster, muster.ReasonClusterNotAccepted, "the hub does not accept the cluster"})
			continue
		}
		credential, why := h.open(have[holder{name, cluster}], ring, hubID, selected.Clusters[cluster])
		if why != nil {
			why.Name = cluster
			missing = append(missing, *why)
			continue
		}
		entries = append(entries, credential.Entry())
		handed = append(handed, fmt.Sprintf("cluster %s, %s", cluster, credential.record))
	}
	if len(missing) > 0 || len(entries) == 0 {
		return nil, nil, &Pending{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "KubeconfigPending"},
			Selected: len(selected.Clusters), Ready: len(entries), Missing: missing,
		}, nil
	}
	return entries, handed, nil, nil
}

// opened is a credential, and what is noted of it.
type opened struct {
	useraccess.Credential
	record string
}

// open opens the newest request of a user in a cluster that gives access now; or it
// says why there is none.
func (h *Handler) open(requests []*v1alpha1.AccessRequest, ring Ring, hubID string, mc *clusterv1.ManagedCluster) (opened, *MissingCluster) {
	why := &MissingCluster{Reason: muster.ReasonInProgress, Message: "the hub has not asked the cluster yet"}
	for i, r := range slices.Backward(requests) {
		now := h.clock.Now()
		state, text := useraccess.Progress(r, now)
		ended := r.Status.NotAfter == nil || !now.Before(r.Status.NotAfter.Time)
		if state != useraccess.Issued || ended {
			if i == len(requests)-1 && text != "" {
				why = &MissingCluster{Reason: reasonOf(r), Message: text}
			}
			continue
		}
		keys, known := ring.Find(r.Status.KeyHash)
		if !known {
			continue // it is renewed with another key
		}
		credential, err := useraccess.Open(r, keys, hubID)
		if errors.Is(err, useraccess.ErrNoEndpoint) {
			return opened{}, &MissingCluster{Reason: muster.ReasonEndpointUnknown, Message: noEndpoint(mc)}
		}
		if err != nil {
			return opened{}, &MissingCluster{Reason: muster.ReasonRequestTampered, Message: err.Error()}
		}
		return opened{credential, fmt.Sprintf("key %s, until %s", r.Status.KeyHash, credential.NotAfter.UTC().Format("2006-01-02 15:04:05 MST"))}, nil
	}
	return opened{}, why
}

// noEndpoint says why a request has no endpoint: the annotation can't be read, or there
// is nothing by which users could reach the cluster.
func noEndpoint(mc *clusterv1.ManagedCluster) string {
	if _, problem := access.Endpoints(mc); problem != "" {
		return problem
	}
	return "the hub has learnt only now where the cluster's API server is, and puts it into the request"
}

// reasonOf is the reason of the condition by which a request has not been answered.
func reasonOf(r *v1alpha1.AccessRequest) string {
	for _, kind := range []string{muster.ConditionFailed, muster.ConditionApproved, muster.ConditionIssued} {
		for _, c := range r.Status.Conditions {
			if c.Type == kind && (c.Status == metav1.ConditionTrue) == (kind == muster.ConditionFailed) {
				return c.Reason
			}
		}
	}
	return muster.ReasonInProgress
}

// HubID reads the hub's ID, and remembers it. It is safe for concurrent use.
func HubID(r client.Reader) func(context.Context) (string, error) {
	var mu sync.Mutex
	var id string
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if id == "" {
			ns := &corev1.Namespace{}
			if err := r.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns); err != nil {
				return "", fmt.Errorf("find out the hub's ID: %w", err)
			}
			id = access.HubID(string(ns.UID))
		}
		return id, nil
	}
}

// Equal refusals share one event for as long as it lives; a flood of different ones
// must not fill the store.
const refusalsPerSecond, refusalsAtOnce = 1, 50

// record leaves an event on the cloud for a kubeconfig that is handed out. What does
// not fit into it is in the audit log.
func (h *Handler) record(ctx context.Context, lc *v1alpha1.LogicalCloud, requester, user string, handed []string) error {
	note := fmt.Sprintf("kubeconfig handed out: requester %q, user %q, %s", requester, user, strings.Join(handed, "; "))
	e := h.event(lc, corev1.EventTypeNormal, muster.EventKubeconfigHandedOut, note)
	e.GenerateName = "kubeconfig-"
	if err := h.client.Create(ctx, e); err != nil {
		return fmt.Errorf("record that a kubeconfig is handed out: %w", err)
	}
	audit.AddAuditAnnotation(ctx, "muster-fleet.io/kubeconfig", fmt.Sprintf("user %q: %s", user, strings.Join(handed, "; ")))
	return nil
}

// refused leaves an event on the cloud for a kubeconfig that somebody may not have.
func (h *Handler) refused(ctx context.Context, lc *v1alpha1.LogicalCloud, requester, user string, why error) {
	audit.AddAuditAnnotation(ctx, "muster-fleet.io/access-refused", why.Error())
	note := fmt.Sprintf("kubeconfig refused: requester %q, user %q: %v", requester, user, why)
	e := h.event(lc, corev1.EventTypeWarning, muster.EventAccessRefused, note)
	event.NameOnce(e, "kubeconfig-refused-")
	log := logging.FromContext(ctx).With("namespace", e.Namespace, "note", e.Note)
	if !h.refusals.TryAccept() {
		log.Info("kubeconfig refused, and no event made, as there are too many")
		return
	}
	if err := h.client.Create(ctx, e); err != nil && !apierrors.IsAlreadyExists(err) {
		log.Error("make an event of a refused kubeconfig", "err", err)
	}
}

// event is one about a cloud, without a name.
func (h *Handler) event(lc *v1alpha1.LogicalCloud, kind, reason, note string) *eventsv1.Event {
	source := event.Source{Controller: muster.GroupName + "/access", Instance: "muster-hub", Clock: h.clock}
	return source.New(corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogicalCloud",
		Namespace: lc.Namespace, Name: lc.Name, UID: lc.UID,
	}, event.What{Type: kind, Reason: reason, Action: "HandOut", Note: note})
}
