package registration

import (
	"net/http"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
)

// newClient makes a client of a hub, and notes when that answers.
func (r *Registration) newClient(config *rest.Config) (client.WithWatch, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = r.UserAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &contactTransport{next: next, answered: r.noteAnswer}
	})
	return client.NewWithWatch(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
}

// Reached reports whether a hub has answered the agent since it was started. It stays
// so when the hub is away later.
func (r *Registration) Reached() bool { return r.reached.Load() }

func (r *Registration) noteAnswer() {
	if r.reached.CompareAndSwap(false, true) && r.Answered != nil {
		r.Answered()
	}
}

// contactTransport notes answers of a hub.
type contactTransport struct {
	next     http.RoundTripper
	answered func()
}

// RoundTrip implements http.RoundTripper.
func (t *contactTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil && isAnswer(response.StatusCode) {
		t.answered()
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *contactTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// isAnswer reports whether a status is what a hub says to an agent that it knows, be it
// a refusal. What a proxy or a load balancer says in the hub's place is none, and
// neither is that the credentials are not known.
func isAnswer(status int) bool {
	switch status {
	case http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity:
		return true
	}
	return status >= 200 && status < 300
}
