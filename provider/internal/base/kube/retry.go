package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
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
	next   http.RoundTripper
	outage *outage
}

// UnansweredError is that of a request whose time was up, or that was interrupted,
// while the server was away. errors.Is knows it as the context's error.
type UnansweredError struct {
	// Ended is the context's error, Last that of the last attempt.
	Ended, Last error
}

// Error implements error.
func (e *UnansweredError) Error() string {
	return "there was no answer in time, and the last attempt failed: " + e.Last.Error()
}

// Unwrap is both errors.
func (e *UnansweredError) Unwrap() []error { return []error{e.Ended, e.Last} }

// IsUnanswered reports whether the server was away until the time was up.
func IsUnanswered(err error) bool {
	var unanswered *UnansweredError
	return errors.As(err, &unanswered)
}

// IsAway reports whether a request failed because the server could not be reached or
// did not answer, in contrast to a connection that is configured wrongly.
func IsAway(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if statusOf(err) != nil {
		return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
	}
	outcome := classify(nil, err)
	return IsUnanswered(err) || errors.Is(err, context.DeadlineExceeded) || outcome == refused || outcome == lost
}

// ended is the error of an operation whose context has ended: with the reason why
// the server did not answer, where that is known.
func ended(ctx context.Context, err error) error {
	if IsUnanswered(err) {
		return err
	}
	return ctx.Err()
}

// RoundTrip implements http.RoundTripper. It sends requests twice that may be: all but
// POST. Patches are: applied ones by their nature, merged ones because they carry the
// resource version.
func (t *retryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	var last error
	ctx := req.Context()
	for attempt, renewed := 0, false; ; attempt++ {
		try := req.WithContext(ctx)
		if attempt > 0 && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			try.Body = body
		}
		resp, err := t.next.RoundTrip(try)
		if ended := ctx.Err(); ended != nil && err != nil && last != nil {
			return nil, &UnansweredError{Ended: ended, Last: last}
		}
		outcome := classify(resp, err)
		again := t.outage.again(outcome, req.Method != http.MethodPost)
		if outcome == fine && resp.StatusCode == http.StatusUnauthorized && t.outage.renewable && !renewed {
			// Credentials that have expired are read again, once. The request had no effect.
			again, renewed = true, true
		}
		if !again || ctx.Err() != nil {
			return resp, err
		}
		wait := backoff(attempt, resp)
		if last = err; err == nil {
			last = fmt.Errorf("the server answered %s", resp.Status)
			_, _ = io.CopyN(io.Discard, resp.Body, respRead)
			_ = resp.Body.Close()
		}
		if retry.Sleep(ctx, clock.RealClock{}, wait, nil); ctx.Err() != nil {
			return nil, &UnansweredError{Ended: ctx.Err(), Last: last}
		}
	}
}

// respRead is how much is read of an answer that counts for nothing, so that its connection
// can be used again.
const respRead = 4096

// outage tracks how long a server has been failing.
type outage struct {
	budget time.Duration
	clock  clock.PassiveClock
	// renewable says that credentials may be others the next time.
	renewable bool

	mu          sync.Mutex
	since, last time.Time
}

// again notes what came of an attempt, and reports whether to try once more.
func (o *outage) again(outcome outcome, repeatable bool) bool {
	switch outcome {
	case fine:
		o.over()
	case refused:
		return o.lasting()
	case lost:
		return repeatable && o.lasting()
	}
	return false
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
		case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout:
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

// The waits between two attempts.
const (
	retryWaitMin = 100 * time.Millisecond
	retryWaitMax = 2 * time.Second
)

// backoff doubles the wait with every attempt; a server that says how long to
// wait, in whole seconds, is believed up to the maximum.
func backoff(attempt int, resp *http.Response) time.Duration {
	if resp != nil {
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
			return min(time.Duration(seconds)*time.Second, retryWaitMax)
		}
	}
	return min(retryWaitMin<<min(attempt, 10), retryWaitMax)
}
