package kube

import (
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

func isUnexpectedEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err)
}

// IsNotFound reports whether the server said that the very object asked for does
// not exist. A 404 for any other reason, such as a kind that the server does
// not serve or a namespace that is missing, is not it.
func IsNotFound(err error, name string) bool {
	status := statusOf(err)
	return status != nil && apierrors.IsNotFound(err) && !isForeignAnswer(status) &&
		status.Details != nil && status.Details.Name == name
}

// IsNamespaceNotFound reports whether a write failed because its namespace does
// not exist.
func IsNamespaceNotFound(err error, namespace string) bool {
	status := statusOf(err)
	return status != nil && apierrors.IsNotFound(err) && !isForeignAnswer(status) &&
		status.Details != nil && status.Details.Kind == "namespaces" && status.Details.Name == namespace
}

// IsMissingNamespace reports whether a write failed because its namespace,
// whichever it was, does not exist.
func IsMissingNamespace(err error) bool {
	status := statusOf(err)
	return status != nil && status.Details != nil && IsNamespaceNotFound(err, status.Details.Name)
}

// IsKindNotServed reports whether the server does not know the kind at all.
func IsKindNotServed(err error) bool {
	status := statusOf(err)
	return status != nil && apierrors.IsNotFound(err) && isForeignAnswer(status)
}

// UnservedResource is the resource, such as managedclusters, that the server does not
// serve; empty when that is not what err is about.
func UnservedResource(err error) string {
	if status := statusOf(err); IsKindNotServed(err) && status.Details != nil {
		return status.Details.Kind
	}
	return ""
}

// isForeignAnswer reports whether client-go made the status up because the
// answer held none.
func isForeignAnswer(status *metav1.Status) bool {
	if status.Details == nil {
		return true
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	s := status.Status()
	return &s
}

// Conflict is a field that another field manager has set to another value.
type Conflict struct {
	// Field is its path, such as .spec.x.
	Field string
	// Owner names the manager, as the server does: "kubectl" using v1.
	Owner string
}

// String is the conflict in words.
func (c Conflict) String() string { return fmt.Sprintf("field %s is owned by %s", c.Field, c.Owner) }

// Conflicts lists the fields of a refused server-side apply and who owns them. It is
// empty for other errors.
func Conflicts(err error) []Conflict {
	status := statusOf(err)
	if status == nil || status.Reason != metav1.StatusReasonConflict || status.Details == nil {
		return nil
	}
	var conflicts []Conflict
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			conflicts = append(conflicts, Conflict{Field: cause.Field, Owner: strings.TrimPrefix(cause.Message,
				"conflict with ")})
		}
	}
	return conflicts
}
