// Package testkit is what tests share: waiting, failing, counting, keys. It
// needs the standard library alone, so that every test may import it. Below it:
//
//   - testworld: a test's objects on an API server.
//   - testenv: a control plane for the tests of a package, which the program testserver runs.
//   - testhub: hubs and dev clusters as processes of their own.
//   - testfleet: real identities on any hub.
//   - fakewatch: a fake API server that says when it is watched.
package testkit

import (
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// Timeout is how long Eventually waits. It is generous because the machines
// that run tests are busy; a test that passes needs a fraction of it.
const Timeout = 3 * time.Minute

const pollPeriod = 20 * time.Millisecond

// Must fails the test at once when err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually calls check until it returns nil. After Timeout it fails the test
// with the last error, which should say what check saw.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	if err := Poll(Timeout, check); err != nil {
		t.Fatalf("after %s: %v", Timeout, err)
	}
}

// EventuallyThat is Eventually with words for what is waited for, such as "the
// pod is made", which the failure names.
func EventuallyThat(t testing.TB, what string, check func() error) {
	t.Helper()
	EventuallyWithin(t, Timeout, what, check)
}

// EventuallyWithin is EventuallyThat with another timeout.
func EventuallyWithin(t testing.TB, timeout time.Duration, what string, check func() error) {
	t.Helper()
	if err := Poll(timeout, check); err != nil {
		t.Fatalf("%s: after %s: %v", what, timeout, err)
	}
}

// Poll calls check until it returns nil, and returns the last error after the
// timeout.
func Poll(timeout time.Duration, check func() error) error {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// FreeAddress is an address of this machine at which nobody listens. Its port is not
// one of those that the system gives to connections and to listeners without a port of
// their own, so that nobody takes it by chance before a server listens there, or while
// one is started again.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(12_000)))
		if listener, err := net.Listen("tcp", address); err == nil {
			Must(t, listener.Close())
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}

// Kubectl is the path of kubectl. Without it, the test is skipped.
func Kubectl(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("there is no kubectl")
	}
	return path
}
