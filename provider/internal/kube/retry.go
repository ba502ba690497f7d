package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"k8s.io/utils/clock"
)

// DefaultRetryBudget is how long a server may be away, say for a restart, before
// requests to it fail.
const DefaultRetryBudget = 60 * time.Second

// outageForgotten is how long after the last failure the next one counts as a
// new outage with a budget of its own.
const outageForgotten = 15 * time.Second

// retryTransport repeats requests that failed for a passing reason. The budget
// belongs to the server and not to the request: when a server stays away, the
// first requests wait for it and the later ones fail at once.
type retryTransport struct {
	retrying http.RoundTripper
	outage   *outage
}

// newRetryTransport wraps next. The wait between two attempts grows from 100
// milliseconds to 2 seconds.
func newRetryTransport(next http.RoundTripper, budget time.Duration, clk clock.PassiveClock) *retryTransport {
	outage := &outage{budget: budget, clock: clk}
	return &retryTransport{
		outage: outage,
		retrying: &retryablehttp.RoundTripper{Client: &retryablehttp.Client{
			HTTPClient:   &http.Client{Transport: next, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
			RetryWaitMin: 100 * time.Millisecond,
			RetryWaitMax: 2 * time.Second,
			RetryMax:     1 << 20, // the outage's budget is the limit
			Backoff:      backoff,
			CheckRetry:   outage.checkRetry,
			ErrorHandler: retryablehttp.PassthroughErrorHandler,
		}},
	}
}

// RoundTrip implements http.RoundTripper.
func (t *retryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := context.WithValue(req.Context(), repeatableKey{}, req.Method != http.MethodPost)
	return t.retrying.RoundTrip(req.WithContext(ctx))
}

// repeatableKey marks a request that may be sent twice: everything but POST.
// Patches are: applied ones by their nature, merged ones because they carry
// the resource version.
type repeatableKey struct{}

// outage tracks how long a server has been failing.
type outage struct {
	budget time.Duration
	clock  clock.PassiveClock

	mu          sync.Mutex
	since, last time.Time
}

func (o *outage) checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	repeatable, _ := ctx.Value(repeatableKey{}).(bool)
	switch classify(resp, err) {
	case fine:
		o.over()
		return false, nil
	case refused:
		return o.lasting(), nil
	case lost:
		return repeatable && o.lasting(), nil
	default:
		return false, nil
	}
}

func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = time.Time{}
}

// lasting notes a failure and reports whether there is budget left.
func (o *outage) lasting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	if o.since.IsZero() || now.Sub(o.last) > outageForgotten {
		o.since = now
	}
	o.last = now
	return now.Sub(o.since) < o.budget
}

type outcome int

const (
	fine     outcome = iota // an answer, be it a refusal
	refused                 // the request had no effect: safe to repeat
	lost                    // the request may have had an effect
	hopeless                // will fail in the same way again
)

func classify(resp *http.Response, err error) outcome {
	if err == nil {
		switch resp.StatusCode {
		case http.StatusTooManyRequests:
			return refused
		case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return lost
		}
		return fine
	}
	var (
		unknownAuthority x509.UnknownAuthorityError
		invalid          x509.CertificateInvalidError
		hostname         x509.HostnameError
		dns              *net.DNSError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &unknownAuthority), errors.As(err, &invalid), errors.As(err, &hostname),
		errors.As(err, &dns) && dns.IsNotFound:
		return hopeless
	case errors.Is(err, syscall.ECONNREFUSED), isDialError(err):
		return refused
	case isNetworkError(err):
		return lost
	}
	return hopeless
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isNetworkError tells broken connections from configuration errors, such as a
// credential program that is not there.
func isNetworkError(err error) bool {
	var op *net.OpError
	var nerr net.Error
	return errors.As(err, &op) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		(errors.As(err, &nerr) && nerr.Timeout()) || isUnexpectedEnd(err)
}

// backoff doubles the wait with every attempt; a server that says how long to
// wait, in whole seconds, is believed up to the maximum.
func backoff(minimum, maximum time.Duration, attempt int, resp *http.Response) time.Duration {
	if resp != nil {
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
			return min(time.Duration(seconds)*time.Second, maximum)
		}
	}
	if attempt > 10 {
		return maximum
	}
	return min(minimum<<attempt, maximum)
}
