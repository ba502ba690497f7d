package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// What all that asks for access has in common: who asks, and the wait.

// defaultWait is how long an answer may take where the configuration does not say.
const defaultWait = 5 * time.Minute

// hubID is the hub's short name, by what it publishes.
func hubID(ctx context.Context, h *hub.Hub, client *kube.Client) (string, error) {
	published, err := h.Published(ctx, client, hubinfo.Name)
	if err != nil {
		return "", err
	}
	if published[hubinfo.HubIDKey] == "" || !hubinfo.Has(published, hubinfo.UserAccess) {
		return "", errors.New("the hub has no user access: it needs to be a muster hub with the feature gate " +
			"UserAccess, which is on by default")
	}
	return published[hubinfo.HubIDKey], nil
}

// whoami is the user that the provider is to the hub.
func whoami(ctx context.Context, client *kube.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the hub who asks: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// refusedError is that of a request that gets no answer.
type refusedError struct{ text string }

// Error implements error.
func (e *refusedError) Error() string { return e.text }

// await waits until a request is issued. It fails as soon as it is refused, and
// request holds what was seen last.
func await(ctx context.Context, client *kube.Client, request request) error {
	return client.Wait(ctx, request, request.Namespace, request.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, &refusedError{"the request was deleted meanwhile"}
		}
		state, text := useraccess.Progress(request, time.Now())
		if state == useraccess.Refused {
			return false, &refusedError{text}
		}
		return state == useraccess.Issued, nil
	})
}

// describe says why there is no answer.
func describe(client *kube.Client, request request, timeout time.Duration, err error) string {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return attribute.Capitalize(refused.text) + "."
	case hub.IsTimeout(err):
		_, text := useraccess.Progress(request, time.Now())
		return fmt.Sprintf("There was no answer within %s: %s.\n\n%s\n\nNext:\n  kubectl describe accessrequest -n "+
			"%s %s",
			attribute.ShortDuration(timeout), text, hub.DescribeConditions(request.Status.Conditions, time.Now()),
			request.Namespace, request.Name)
	default:
		return hub.Explain(client.Host(), "wait for the answer", err)
	}
}
