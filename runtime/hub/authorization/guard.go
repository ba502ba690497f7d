package authorization

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// Guard wraps the handler of authorized requests. It ends the watch of somebody who
// belongs to a cluster when that cluster's standing or agent changes. The agent of a cluster that is not
// accepted sees its works only while they are being deleted, because it has to
// clean up after them.
func (g *Agents) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := filters.GetAuthorizerAttributes(r.Context())
		if err != nil || !a.IsResourceRequest() {
			next.ServeHTTP(w, r)
			return
		}
		clusters := clustersOf(a.GetUser())
		switch {
		case len(clusters) == 0:
			next.ServeHTTP(w, r)
		case a.GetVerb() == "watch":
			g.serveWatch(next, w, r, clusters, a)
		case g.isWithheld(clusters, a):
			serveLeaving(next, w, r, a)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// serveWatch serves a watch until the client ends it or loses the right to it.
func (g *Agents) serveWatch(next http.Handler, w http.ResponseWriter, r *http.Request,
	clusters []cluster.Belonging, a authorizer.Attributes,
) {
	ctx, watch := extension.LastingOf(r.Context())
	open := &openWatch{attributes: a, end: watch.End}
	g.mu.Lock()
	for _, c := range clusters {
		if g.watches[c.Cluster] == nil {
			g.watches[c.Cluster] = map[*openWatch]struct{}{}
		}
		g.watches[c.Cluster][open] = struct{}{}
	}
	// The standing may have changed since the request was authorized.
	decision, reason := g.decide(clusters, a)
	g.mu.Unlock()
	defer watch.AtEnd(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, c := range clusters {
			delete(g.watches[c.Cluster], open)
			if len(g.watches[c.Cluster]) == 0 {
				delete(g.watches, c.Cluster)
			}
		}
	})
	if decision == authorizer.DecisionDeny {
		refuse(w, a, reason)
		return
	}
	next.ServeHTTP(w, r.WithContext(ctx))
}

// isWithheld reports whether an agent's request is for works of a cluster that
// is not accepted.
func (g *Agents) isWithheld(clusters []cluster.Belonging, a authorizer.Attributes) bool {
	if a.GetAPIGroup() != work.GroupName || a.GetResource() != "manifestworks" {
		return false
	}
	for _, c := range clusters {
		if c.Part == cluster.Agent && a.GetNamespace() == c.Cluster {
			return g.standing(c.Cluster) == Unaccepted
		}
	}
	return false
}

// serveLeaving serves a request about works if these are being deleted. For
// writes, admission checks this, because it knows the stored object.
func serveLeaving(next http.Handler, w http.ResponseWriter, r *http.Request, a authorizer.Attributes) {
	switch a.GetVerb() {
	case "patch":
		// Other kinds of patches can move the content of a work to where an
		// error shows it, or compare it.
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != string(types.MergePatchType) {
			refuse(w, a, "the managed cluster is not accepted, its agent may only send merge patches")
			return
		}
		next.ServeHTTP(w, r)
		return
	case "get", "list":
	default:
		next.ServeHTTP(w, r)
		return
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", "application/json") // no tables, no other encodings
	r.Header.Del("Accept-Encoding")
	whole := &response{header: http.Header{}, code: http.StatusOK}
	next.ServeHTTP(whole, r)
	if whole.code == http.StatusOK {
		if err := checkLeaving(whole.body.Bytes(), a.GetVerb() == "list"); err != nil {
			refuse(w, a, err.Error())
			return
		}
	}
	maps.Copy(w.Header(), whole.header)
	w.WriteHeader(whole.code)
	_, _ = w.Write(whole.body.Bytes())
}

var errLives = errors.New("the managed cluster is not accepted, its agent may only clean up behind works that are being deleted")

// checkLeaving returns errLives unless a work, or each work of a list, is being
// deleted. It does not filter a list: an agent that takes a filtered list for a
// full one would remove what the other works have applied.
func checkLeaving(body []byte, list bool) error {
	works := struct {
		metav1.PartialObjectMetadata `json:",inline"`
		Items                        []metav1.PartialObjectMetadata `json:"items"`
	}{}
	if err := json.Unmarshal(body, &works); err != nil {
		return errLives
	}
	if !list {
		works.Items = []metav1.PartialObjectMetadata{works.PartialObjectMetadata}
	}
	for _, w := range works.Items {
		if w.DeletionTimestamp.IsZero() {
			return errLives
		}
	}
	return nil
}

// refuse answers with the API server's Forbidden.
func refuse(w http.ResponseWriter, a authorizer.Attributes, reason string) {
	resource := schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}
	extension.Refuse(w, apierrors.NewForbidden(resource, a.GetName(), errors.New(reason)))
}

// response records the answer of a handler.
type response struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(code int)        { r.code = code }
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }

var _ http.ResponseWriter = &response{}

// isQuestion reports whether somebody asks what a user may do, and does not do it.
func isQuestion(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || !info.IsResourceRequest || info.APIGroup != authorizationv1.GroupName {
		return false
	}
	switch info.Resource {
	case "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews":
		return true
	}
	return false
}

// checkWorks answers a question about works of a cluster that is not accepted as the
// request itself is answered: by the works that there are.
func (g *Agents) checkWorks(ctx context.Context, a authorizer.Attributes) error {
	reader := g.works.Load()
	if reader == nil {
		return errLives
	}
	works := &metav1.PartialObjectMetadataList{}
	works.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
	if err := (*reader).List(ctx, works, client.InNamespace(a.GetNamespace())); err != nil {
		return fmt.Errorf("find out which works of the cluster %s are being deleted: %w", a.GetNamespace(), err)
	}
	for i := range works.Items {
		if w := &works.Items[i]; w.DeletionTimestamp.IsZero() && (a.GetName() == "" || a.GetName() == w.Name) {
			return errLives
		}
	}
	return nil
}

// Allowed asks whether a user has a right, and if not, why.
func Allowed(
	ctx context.Context, c client.Client, who user.Info, right authorizationv1.ResourceAttributes,
) (allowed bool, reason string, err error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range who.GetExtra() {
		extra[k] = v
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), Groups: who.GetGroups(), UID: who.GetUID(), Extra: extra, ResourceAttributes: &right,
	}}
	if err := c.Create(ctx, review); err != nil {
		return false, "", fmt.Errorf("ask for the rights of %s: %w", who.GetName(), err)
	}
	return review.Status.Allowed, review.Status.Reason, nil
}
