package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	systemPrefix         = "system:"
	serviceAccountPrefix = "system:serviceaccount:"
)

// CheckUser checks the name of a user that is to get access. The names of
// Kubernetes are refused but for service accounts of the hub, by which programs
// ask.
func CheckUser(user string) error {
	switch {
	case user == "":
		return errors.New("it is empty")
	case strings.HasPrefix(user, systemPrefix) && !strings.HasPrefix(user, serviceAccountPrefix):
		return fmt.Errorf("%q is a name of Kubernetes; access is for users and service accounts of the hub", user)
	case strings.ContainsFunc(user, unicode.IsControl):
		return fmt.Errorf("%q contains control characters", user)
	}
	return nil
}

// CheckSpec checks what a request for access asks for against what its logical
// cloud allows, and returns the hash of its key: that of the certificate request,
// or in mode Token of the key that the token is sealed to. Errors begin with the
// field.
func CheckSpec(r *v1alpha1.AccessRequestSpec, cloud *v1alpha1.CloudAccess, hubID string) (keyHash string, err error) {
	certificate, token := r.Mode != v1alpha1.AccessToken, r.Mode == v1alpha1.AccessToken || r.Mode == v1alpha1.AccessAuto
	if err := checkMode(r.Mode, cloud.Modes, certificate, token); err != nil {
		return "", err
	}
	switch {
	case certificate && len(r.Request) == 0:
		return "", fmt.Errorf("spec.request: the mode %s needs a certificate request in PEM", r.Mode)
	case token && len(r.SealTo) == 0:
		return "", fmt.Errorf("spec.sealTo: the mode %s needs an X25519 public key, to which the token is sealed", r.Mode)
	case !certificate && len(r.Request) > 0:
		return "", fmt.Errorf("spec.request: the mode %s needs no certificate request; leave it out, or take the mode %s", r.Mode, v1alpha1.AccessAuto)
	case !token && len(r.SealTo) > 0:
		return "", fmt.Errorf("spec.sealTo: the mode %s has no token to seal; leave it out, or take the mode %s", r.Mode, v1alpha1.AccessAuto)
	case cloud.MaxLifetimeSeconds > 0 && r.ExpirationSeconds > cloud.MaxLifetimeSeconds:
		return "", fmt.Errorf("spec.expirationSeconds: %d is more than the %d that the logical cloud allows (spec.access.maxLifetimeSeconds)", r.ExpirationSeconds, cloud.MaxLifetimeSeconds)
	}
	if token {
		if keyHash, err = CheckSealTo(r.SealTo, r.Request); err != nil {
			return "", fmt.Errorf("spec.sealTo: %w", err)
		}
	}
	if certificate {
		if keyHash, err = CheckRequest(r.Request, hubID, r.User); err != nil {
			return "", fmt.Errorf("spec.request: %w", err)
		}
	}
	return keyHash, nil
}

// checkMode checks that the cloud allows what a mode needs. A cloud without modes
// allows all.
func checkMode(mode v1alpha1.AccessMode, allowed []v1alpha1.AccessMode, certificate, token bool) error {
	for _, need := range []struct {
		mode   v1alpha1.AccessMode
		wanted bool
	}{{v1alpha1.AccessCertificate, certificate}, {v1alpha1.AccessToken, token}} {
		if need.wanted && len(allowed) > 0 && !slices.Contains(allowed, need.mode) {
			return fmt.Errorf("spec.mode: %s is not allowed by the logical cloud; take the mode %s (spec.access.modes)", mode, allowed[0])
		}
	}
	return nil
}
