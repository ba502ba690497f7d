package hub

import (
	"errors"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// missingRequestRight is how a server refuses a request that the identity may not
// make at all. Admission, which reads what is written, says other things.
var missingRequestRight = regexp.MustCompile(`cannot \S+ resource "`)

// IsMissingRight reports whether the identity may not make the request, whatever
// it writes.
func IsMissingRight(err error) bool {
	return apierrors.IsForbidden(err) && missingRequestRight.MatchString(err.Error())
}

// RefusesForGood reports whether the answer to a dry run is that of the apply, too.
// A missing right may be that of the identity that plans, a missing namespace or
// object may be created by the same apply, and a webhook may not take dry runs.
func RefusesForGood(err error) bool {
	switch {
	case namesWhatIsMissing(err):
		return false // the same apply may create it
	case len(kube.Conflicts(err)) > 0, apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	case apierrors.IsBadRequest(err):
		return !strings.Contains(err.Error(), "does not support dry run")
	case apierrors.IsForbidden(err):
		return !IsMissingRight(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) &&
			!strings.Contains(err.Error(), "is terminating") && !strings.Contains(err.Error(), "exceeded quota")
	}
	return false
}

// namesWhatIsMissing reports whether a refusal says nothing but that objects are
// missing which fields name.
func namesWhatIsMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil ||
		len(status.Status().Details.Causes) == 0 {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldValueNotFound {
			return false
		}
	}
	return true
}
