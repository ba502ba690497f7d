// Package extension has the types by which a hub extends its control plane:
// authorizers, admission plugins, the flows of requests, requests that last, and the meter
// of what is stored. It doesn't link the control plane, so what is written and tested with these
// types doesn't either.
package extension

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Authorizer is an authorizer under its name.
type Authorizer struct {
	Name       string
	Authorizer authorizer.Authorizer
}

// AdmissionPlugin is an in-process admission plugin under its name.
type AdmissionPlugin struct {
	Name    string
	Factory admission.Factory
}

// Flow is whose requests count together, and how many of them are carried out at
// a time.
type Flow struct {
	// Name is unique among flows. Requests without one never wait.
	Name string
	// Reads and Writes are how many run at a time. The rest wait for their turn, in
	// order. A watch counts as a read until the client has got what is there.
	Reads, Writes int
	// Watches is how many may be open at a time. More are refused.
	Watches int
	// Bytes is how much of requests' bodies is in memory at a time. The rest wait.
	Bytes int64
	// Pool is what the flow shares with others, and Leases the same for its requests for
	// leases, which say that somebody is there. A pool without a name has room for all.
	Pool, Leases Pool
}

// Pool is what the requests of many flows share: the processors. Requests beyond those
// that the processors can carry out would only make each other slow, until clients give up
// and ask again for what the server is still at.
type Pool struct {
	// Name is unique among pools. Metrics have it.
	Name string
	// Running is how many requests of all its flows run at a time. The rest wait for their
	// turn, in order. Those that wait for too long are asked to come back later.
	Running int
	// Patience is how long a request waits. It is shorter than the time after which the
	// clients give up, so that who gets its turn can still use it.
	Patience time.Duration
	// After is the name of a pool whose requests are more urgent: while one of them waits,
	// this pool takes in only as many requests as are a quarter of Running.
	After string
}

// Refuse answers a request as the API server does.
func Refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// IssuedAtKey is the key of a user's extra information that has the time, in seconds
// since 1970, at which the user's certificate or service account token was issued.
// NeverExpires stands for a token without a time, which lives for ever. Other users, such
// as impersonated ones, have none.
const IssuedAtKey = "muster-fleet.io/credential-issued-at"

// NeverExpires is the value of IssuedAtKey for a token without a time.
const NeverExpires = "never-expires"

// WithIssue adds to a user's extra information when the certificate was issued.
func WithIssue(u user.Info, c *x509.Certificate) user.Info {
	return WithIssueTime(u, strconv.FormatInt(cluster.IssuedAt(c.NotBefore).Unix(), 10))
}

// WithIssueTime adds the value of IssuedAtKey to a user's extra information.
func WithIssueTime(u user.Info, value string) user.Info {
	extra := maps.Clone(u.GetExtra())
	if extra == nil {
		extra = map[string][]string{}
	}
	extra[IssuedAtKey] = []string{value}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}
}

// Meter decides whether what a user writes is stored. It is asked last, when an
// object has passed admission and its form in the store is known, for all kinds alike.
// It is safe for concurrent use.
type Meter interface {
	// SetStore is called once, before the first write.
	SetStore(Store)
	// Meters reports whether the user's writes are metered.
	Meters(user.Info) bool
	// Charge refuses a write by an API status, or counts it.
	Charge(context.Context, Write) error
	// Hold waits until the user may change an object of that many bytes, for which the
	// server needs many times as much memory. release is called when it has changed.
	Hold(ctx context.Context, u user.Info, bytes int) (release func(), err error)
}

// Write is an object that is about to be stored for a user.
type Write struct {
	User     user.Info
	Resource schema.GroupResource
	// Key is the object's key in the store. All objects of the same kind and
	// namespace have the part before the last slash in common.
	Key             string
	Namespace, Name string
	// Creates is whether the object is new, and Deletes whether the write is the
	// beginning of its deletion.
	Creates, Deletes bool
	// Size is what the object takes in the store, in bytes, and Before what it took.
	// Before is 0 for a new one.
	Size, Before int
}

// Store is what a Meter can learn about the store. It is safe for concurrent use.
type Store interface {
	// Size is how full the store is.
	Size(context.Context) (StoreSize, error)
	// Kept counts the objects whose keys begin with prefix.
	Kept(ctx context.Context, prefix string) (Kept, error)
}

// Kept is what a part of the store holds.
type Kept struct {
	Objects int
	// Bytes are those of whole objects, and SpecBytes those of their specs. Only custom
	// resources have specs here.
	Bytes, SpecBytes int64
}

// StoreSize is how full the store is, in bytes.
type StoreSize struct {
	// InUse is what objects and their recent versions take. File is what the store
	// takes on the disk: it keeps the room of what was deleted, for what comes next.
	InUse int64
	File  int64
	// Quota is how large the file may grow before the store refuses all writes.
	Quota int64
}
