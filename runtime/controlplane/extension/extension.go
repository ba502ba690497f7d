// Package extension has the types by which a hub extends its control plane:
// authorizers, admission plugins, the flows of requests, and the meter of what is
// stored. It doesn't link the control plane, so what is written and tested with these
// types doesn't either.
package extension

import (
	"encoding/json"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
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
