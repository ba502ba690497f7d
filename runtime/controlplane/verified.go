package controlplane

import (
	"crypto/x509"
	"net/http"
	"runtime"
	"sync"
	"time"
	"weak"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// verifiedFor is how long a verified certificate need not be verified again. One that
// has expired, or whose authority is not trusted any more, is refused at once. Only an
// authority that expires itself is noticed as late as this.
const verifiedFor = time.Minute

// verified remembers who the certificates of open connections stand for. Kubernetes
// verifies the certificate of each request, which never changes on a connection: a
// tenth of a millisecond, more than all else that a heartbeat's authentication costs.
type verified struct {
	authenticator.Request
	options func() (x509.VerifyOptions, bool)

	known sync.Map // of weak.Pointer[x509.Certificate] to bearer
}

// bearer is who a certificate stands for. It does not keep the certificate, whose
// connection may be gone.
type bearer struct {
	response *authenticator.Response
	roots    *x509.CertPool
	until    time.Time
}

// AuthenticateRequest implements authenticator.Request.
func (v *verified) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	// A token beside a certificate counts when the certificate does not.
	if r.TLS == nil || len(r.TLS.PeerCertificates) != 1 || r.Header.Get("Authorization") != "" {
		return v.Request.AuthenticateRequest(r)
	}
	options, ok := v.options()
	if !ok {
		return v.Request.AuthenticateRequest(r)
	}
	certificate := r.TLS.PeerCertificates[0]
	key := weak.Make(certificate)
	entry, known := v.known.Load(key)
	if b, _ := entry.(bearer); known && b.roots == options.Roots && options.CurrentTime.Before(b.until) {
		return b.response, true, nil
	}
	response, ok, err := v.Request.AuthenticateRequest(r)
	if err != nil || !ok {
		return response, ok, err
	}
	until := options.CurrentTime.Add(verifiedFor)
	if certificate.NotAfter.Before(until) {
		until = certificate.NotAfter
	}
	if _, known = v.known.Swap(key, bearer{response, options.Roots, until}); !known {
		runtime.AddCleanup(certificate, func(key weak.Pointer[x509.Certificate]) { v.known.Delete(key) }, key)
	}
	return response, true, nil
}
