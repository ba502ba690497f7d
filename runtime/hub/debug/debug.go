// Package debug explains over HTTP how placements are decided, as upstream's
// placement debug server does: which clusters each filter left, what each
// prioritizer gave, and, beyond upstream, why each cluster is chosen or not.
//
//	GET  /debug/placements/<namespace>/<name>   a placement that exists
//	POST /debug/placements/                     one in the body, which need not
//
// Nothing is written. The user needs the right to get, or to create, placements in
// that namespace.
package debug

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/authorization"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

const (
	// Path is what the handler serves, and everything below it.
	Path = "/debug/placements/"

	// maxBody is how large the body of a simulation may be, in bytes.
	maxBody = 1 << 20

	// timeout is how long an answer may take, the wait for its turn included.
	timeout = 10 * time.Second
)

// Answer is what the endpoint answers. An error comes alone.
type Answer struct {
	// Placement is what was decided, with its name, namespace, labels, annotations
	// and specification.
	Placement *clusterv1beta1.Placement `json:"placement,omitempty"`
	// Filtered are the clusters that were left after each filter.
	Filtered []Filtered `json:"filteredPipelineResults,omitempty"`
	// Prioritized is what each prioritizer gave.
	Prioritized []Prioritized `json:"prioritizeResults,omitempty"`
	// Scores are the weighted sums, the best first and then by name.
	Scores []Score `json:"aggregatedScores,omitempty"`
	// Explanations, which upstream does not have, say of every cluster why it
	// would be chosen or not: the candidates by rank, then the others by name.
	Explanations []scheduling.Explanation `json:"explanations,omitempty"`
	// Error is why there is no answer.
	Error string `json:"error,omitempty"`
}

// Filtered are the clusters that were left after a filter, which is named after
// all those before it.
type Filtered struct {
	Name     string   `json:"name"`
	Clusters []string `json:"filteredClusters"`
}

// Prioritized is what a prioritizer gave.
type Prioritized struct {
	Name   string           `json:"name"`
	Weight int32            `json:"weight"`
	Scores map[string]int64 `json:"scores"`
}

// Score is a cluster's weighted sum.
type Score struct {
	Cluster string `json:"clusterName"`
	Score   int64  `json:"score"`
}

// Authorizer lets everybody reach the handler, which judges by itself.
func Authorizer() extension.Authorizer {
	return extension.Authorizer{Name: "PlacementDebug", Authorizer: authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if !a.IsResourceRequest() && strings.HasPrefix(a.GetPath(), Path) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})}
}

// Handler answers requests in whose context Kubernetes' authentication has put
// the user.
type Handler struct {
	client  client.Client
	clock   clock.PassiveClock
	options scheduling.Options
	// turn is held by the one answer that is being worked out.
	turn chan struct{}
}

// NewHandler makes the handler. The client has to be able to read everything that
// placements depend on, and to ask for the rights of others; the options are
// those of the placement controller.
func NewHandler(c client.Client, clk clock.PassiveClock, o scheduling.Options) *Handler {
	return &Handler{client: c, clock: clk, options: o, turn: make(chan struct{}, 1)}
}

// refusal is an error with the HTTP status to answer with.
type refusal struct {
	status int
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Errorf(format, args...)}
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	answer, err := h.answer(w, r)
	if err != nil {
		status = http.StatusInternalServerError
		var refused *refusal
		if errors.As(err, &refused) {
			status = refused.status
		}
		answer = &Answer{Error: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodGet+", "+http.MethodPost)
	}
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		logging.FromContext(r.Context()).Debug("answer a question about a placement", "path", r.URL.Path, "err", err)
	}
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request) (*Answer, error) {
	who, ok := request.UserFrom(r.Context())
	if !ok || who.GetName() == user.Anonymous {
		return nil, refuse(http.StatusUnauthorized, "user information not found in request context: log in with a certificate or a token")
	}
	switch r.Method {
	case http.MethodGet:
		return h.existing(r, who)
	case http.MethodPost:
		return h.simulated(w, r, who)
	}
	return nil, refuse(http.StatusMethodNotAllowed, "method %s is not allowed: use GET %s<namespace>/<name> for a placement that exists, or POST %s with one as JSON", r.Method, Path, Path)
}

// existing explains a placement of the hub.
func (h *Handler) existing(r *http.Request, who user.Info) (*Answer, error) {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, Path), "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, refuse(http.StatusBadRequest, "invalid debug path %s: namespace and name required, as in %s<namespace>/<name>", r.URL.Path, Path)
	}
	if err := h.authorize(r.Context(), who, "get", namespace, name); err != nil {
		return nil, err
	}
	p := &clusterv1beta1.Placement{}
	if err := h.client.Get(r.Context(), client.ObjectKey{Namespace: namespace, Name: name}, p); apierrors.IsNotFound(err) {
		return nil, refuse(http.StatusNotFound, "placement '%s' not found", name)
	} else if err != nil {
		return nil, fmt.Errorf("read the placement %s/%s: %w", namespace, name, err)
	}
	return h.explain(r.Context(), p)
}

// simulated explains a placement of the request's body.
func (h *Handler) simulated(w http.ResponseWriter, r *http.Request, who user.Info) (*Answer, error) {
	if r.URL.Path != Path {
		return nil, refuse(http.StatusBadRequest, "invalid debug path %s: a simulation is a POST to %s", r.URL.Path, Path)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, refuse(http.StatusBadRequest, "request body too large: exceeds maximum of %d bytes", maxBody)
	} else if err != nil {
		return nil, refuse(http.StatusBadRequest, "read the request body: %w", err)
	}
	p := &clusterv1beta1.Placement{}
	if err := json.Unmarshal(body, p); err != nil {
		return nil, refuse(http.StatusBadRequest, "read the placement in the request body, which has to be JSON: %w", err)
	}
	if p.Namespace == "" {
		return nil, refuse(http.StatusBadRequest, "the placement in the request body has no metadata.namespace: name the one whose cluster set bindings count")
	}
	if err := h.authorize(r.Context(), who, "create", p.Namespace, ""); err != nil {
		return nil, err
	}
	return h.explain(r.Context(), p)
}

func (h *Handler) authorize(ctx context.Context, who user.Info, verb, namespace, name string) error {
	allowed, reason, err := authorization.Allowed(ctx, h.client, who, authorizationv1.ResourceAttributes{
		Verb: verb, Namespace: namespace, Name: name, Resource: "placements",
		Group: clusterv1beta1.GroupVersion.Group, Version: clusterv1beta1.GroupVersion.Version,
	})
	if err != nil {
		return err
	}
	if !allowed {
		return refuse(http.StatusForbidden, "user %q does not have permission to %s placements in namespace %s: %s", who.GetName(), verb, namespace,
			cmp.Or(reason, "no role allows it"))
	}
	return nil
}

func (h *Handler) explain(ctx context.Context, p *clusterv1beta1.Placement) (*Answer, error) {
	// An explanation costs more than a scheduling: one at a time, and not forever.
	ctx, end := context.WithTimeout(ctx, timeout)
	defer end()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, refuse(http.StatusServiceUnavailable, "other placements have been explained for %s: try again later", timeout)
	}
	if err := scheduling.CheckSize(&p.Spec, h.options.Expressions); err != nil {
		return nil, refuse(http.StatusBadRequest, "the placement %s/%s: %w", p.Namespace, p.Name, err)
	}
	compiled := scheduling.Compile(p, h.options)
	snapshot := &scheduling.Snapshot{}
	if err := snapshot.Take(ctx, h.list, compiled, h.clock.Now()); err != nil {
		return nil, fmt.Errorf("gather what the placement %s/%s depends on: %w", p.Namespace, p.Name, err)
	}
	in := snapshot.Input(p)
	in.Explain = true
	result, err := compiled.ScheduleWithin(ctx, in)
	if err != nil {
		return nil, refuse(http.StatusServiceUnavailable, "explaining the placement %s/%s takes longer than %s: its expressions cost too much", p.Namespace, p.Name, timeout)
	}
	return answerOf(p, result), nil
}

// list implements scheduling.Lister.
func (h *Handler) list(ctx context.Context, list runtime.Object, namespace string) error {
	return h.client.List(ctx, list.(client.ObjectList), client.InNamespace(namespace))
}

// answerOf is the answer about a result.
func answerOf(p *clusterv1beta1.Placement, result scheduling.Result) *Answer {
	a := &Answer{
		Placement: &clusterv1beta1.Placement{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Annotations: p.Annotations},
			Spec:       p.Spec,
		},
		Explanations: result.Explanations,
	}
	for _, f := range result.Filters {
		a.Filtered = append(a.Filtered, Filtered{f.Name, f.Clusters})
	}
	for _, s := range result.Scores {
		a.Prioritized = append(a.Prioritized, Prioritized{s.Name, s.Weight, s.Scores})
	}
	for name, score := range result.Total {
		a.Scores = append(a.Scores, Score{name, score})
	}
	slices.SortFunc(a.Scores, func(x, y Score) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(x.Cluster, y.Cluster))
	})
	return a
}
