package renewals

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxBody is how large a request with a lease is at most that is looked into, in bytes. Others
// go to the store.
const maxBody = 16 << 10

// Handler answers requests that only renew a lease, and hands all others to the next handler. It
// has to be behind authentication and authorization.
func (k *Leases) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease := k.sent(r)
		if lease == nil || !k.renew(lease) {
			next.ServeHTTP(w, r)
			return
		}
		metrics.InstrumentHandlerFunc(http.MethodPut, coordinationv1.GroupName, "v1", "leases", "", "resource",
			metrics.APIServerComponent, false, "", func(w http.ResponseWriter, r *http.Request) {
				responsewriters.WriteObjectNegotiated(scheme.Codecs, negotiation.DefaultEndpointRestrictions,
					coordinationv1.SchemeGroupVersion, w, r, http.StatusOK, lease, false)
			})(w, r)
	})
}

// sent is the lease of a request that may be a renewal, or nil. It leaves the request as it was.
func (k *Leases) sent(r *http.Request) *coordinationv1.Lease {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || info.Verb != "update" || info.APIGroup != coordinationv1.GroupName || info.APIVersion != "v1" ||
		info.Resource != "leases" || info.Subresource != "" || !k.of(info.Namespace, info.Name) {
		return nil
	}
	if r.ContentLength <= 0 || r.ContentLength > maxBody || asksForMore(r) || !k.plain() || isAudited(r) {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	r.Body = readAgain{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	if err != nil {
		return nil
	}
	lease := decode(r, body)
	if lease == nil || lease.Namespace != info.Namespace || lease.Name != info.Name {
		return nil
	}
	return lease
}

// readAgain is a body that was read in part, with that part in front.
type readAgain struct {
	io.Reader
	io.Closer
}

// decode is the lease in a body, or nil when it is none, or has fields that a lease has not.
func decode(r *http.Request, body []byte) *coordinationv1.Lease {
	format, err := negotiation.NegotiateInputSerializer(r, false, scheme.Codecs)
	if err != nil {
		return nil
	}
	serializer := format.StrictSerializer
	if serializer == nil {
		serializer = format.Serializer
	}
	object, kind, err := serializer.Decode(body, nil, &coordinationv1.Lease{})
	lease, ok := object.(*coordinationv1.Lease)
	if err != nil || !ok || *kind != coordinationv1.SchemeGroupVersion.WithKind("Lease") {
		return nil
	}
	return lease
}

// asksForMore reports whether a request asks for more than the write, and its answer.
func asksForMore(r *http.Request) bool {
	return r.URL.RawQuery != "" || r.Header.Get("Content-Encoding") != "" ||
		strings.Contains(r.Header.Get("Accept"), "as=")
}

// isAudited reports whether the body of a request is noted, which the API's own handlers do.
func isAudited(r *http.Request) bool {
	a := audit.AuditContextFrom(r.Context())
	return a.Enabled() && a.GetEventLevel().GreaterOrEqual(auditinternal.LevelRequest)
}
