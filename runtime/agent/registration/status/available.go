package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

const (
	// tolerance is how long a failure must last before the cluster is called
	// unavailable: an API server that restarts is not an outage.
	tolerance = 20 * time.Second
	// recheck is how often a failing API server is looked at.
	recheck = 5 * time.Second
	// probeTimeout bounds one look.
	probeTimeout = 10 * time.Second
)

// health is the answer of an API server to the question how it is. The zero
// code means that there was no answer.
type health struct {
	code   int
	detail string
}

func (h health) ok() bool { return h.code == http.StatusOK }

// prober asks an API server how it is.
type prober struct {
	client rest.Interface
	clock  clock.PassiveClock
	// failing is since when it has not been well; zero when it is.
	failing time.Time
}

// probe asks once. Servers that don't have the path /livez, or don't let the
// agent see it, are asked in the old way.
func (p *prober) probe(ctx context.Context) health {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	h := p.ask(ctx, "/livez")
	if h.code == http.StatusNotFound || h.code == http.StatusForbidden {
		h = p.ask(ctx, "/healthz")
	}
	switch {
	case h.ok():
		p.failing = time.Time{}
	case p.failing.IsZero():
		p.failing = p.clock.Now()
	}
	return h
}

func (p *prober) ask(ctx context.Context, path string) health {
	body, err := p.client.Get().AbsPath(path).MaxRetries(0).DoRaw(ctx)
	if err == nil {
		return health{code: http.StatusOK, detail: strings.TrimSpace(string(body))}
	}
	h := health{detail: strings.TrimSpace(string(body))}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		h.code = int(status.Status().Code)
	}
	if h.detail == "" {
		h.detail = err.Error()
	}
	return h
}

// availability is the condition for what was found, or none while it is too
// early to call the cluster unavailable.
func availability(h health, failingFor time.Duration) (_ metav1.Condition, decided bool) {
	switch {
	case h.ok():
		return metav1.Condition{
			Type: cluster.ConditionAvailable, Status: metav1.ConditionTrue,
			Reason: cluster.ReasonAvailable, Message: cluster.MessageAvailable,
		}, true
	case failingFor < tolerance:
		return metav1.Condition{}, false
	}
	return metav1.Condition{
		Type: cluster.ConditionAvailable, Status: metav1.ConditionFalse,
		Reason:  cluster.ReasonAPIServerUnavailable,
		Message: fmt.Sprintf(cluster.FormatAPIServerUnavailable, h.code, h.detail),
	}, true
}
