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

// Conflicts lists the fields of a refused server-side apply and who owns them,
// as "field .spec.x is owned by \"kubectl\"". It is empty for other errors.
func Conflicts(err error) []string {
	status := statusOf(err)
	if status == nil || status.Reason != metav1.StatusReasonConflict || status.Details == nil {
		return nil
	}
	var conflicts []string
	for _, cause := range status.Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		owner := strings.TrimPrefix(cause.Message, "conflict with ")
		conflicts = append(conflicts, fmt.Sprintf("field %s is owned by %s", cause.Field, owner))
	}
	return conflicts
}
