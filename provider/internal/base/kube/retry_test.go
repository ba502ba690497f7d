package kube

import (
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// retries asks the policy about one outcome of a request.
func retries(t *testing.T, o *outage, method string, status int, err error) bool {
	t.Helper()
	var resp *http.Response
	if err == nil {
		resp = &http.Response{StatusCode: status, Header: http.Header{}}
	}
	return o.again(classify(resp, err), method != http.MethodPost)
}

func TestWhatIsRetried(t *testing.T) {
	refusedErr := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	resetErr := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for name, test := range map[string]struct {
		method string
		status int
		err    error
		want   bool
	}{
		"success":                  {http.MethodGet, 200, nil, false},
		"not found":                {http.MethodGet, 404, nil, false},
		"conflict":                 {http.MethodPatch, 409, nil, false},
		"too many requests":        {http.MethodPost, 429, nil, true},
		"read, server error":       {http.MethodGet, 500, nil, true},
		"patch, unavailable":       {http.MethodPatch, 503, nil, true},
		"creation, unavailable":    {http.MethodPost, 503, nil, false},
		"read, refused":            {http.MethodGet, 0, refusedErr, true},
		"creation, refused":        {http.MethodPost, 0, refusedErr, true},
		"deletion, reset":          {http.MethodDelete, 0, resetErr, true},
		"creation, reset":          {http.MethodPost, 0, resetErr, false},
		"host does not exist":      {http.MethodGet, 0, &net.DNSError{IsNotFound: true}, false},
		"some configuration error": {http.MethodGet, 0, errors.New("exec: \"aws\": executable file not found"), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outage{budget: time.Minute, clock: clocktesting.NewFakePassiveClock(time.Now())}
			if got := retries(t, o, test.method, test.status, test.err); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestRetriesEndWithTheBudgetOfTheOutage(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o := &outage{budget: time.Minute, clock: clock}
	down := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for range 12 {
		if !retries(t, o, http.MethodGet, 0, down) {
			t.Fatal("gave up before the budget was spent")
		}
		clock.SetTime(clock.Now().Add(5 * time.Second))
	}
	if retries(t, o, http.MethodGet, 0, down) {
		t.Error("goes on after the budget is spent")
	}
	if retries(t, o, http.MethodGet, 0, down) {
		t.Error("another request waits for a server that has been away too long")
	}
	if retries(t, o, http.MethodGet, 200, nil) || !retries(t, o, http.MethodGet, 0, down) {
		t.Error("a server that was back has no new budget")
	}
	clock.SetTime(clock.Now().Add(10 * time.Minute))
	if !retries(t, o, http.MethodGet, 0, down) {
		t.Error("an outage long ago counts against a new one")
	}
}

func TestBackoffGrowsAndBelievesTheServer(t *testing.T) {
	if got := backoff(2, nil); got != 400*time.Millisecond {
		t.Errorf("third wait is %s", got)
	}
	if got := backoff(100, nil); got != 2*time.Second {
		t.Errorf("late wait is %s", got)
	}
	resp := &http.Response{Header: http.Header{"Retry-After": {"1"}}}
	if got := backoff(0, resp); got != time.Second {
		t.Errorf("the server asked for a second and gets %s", got)
	}
}
