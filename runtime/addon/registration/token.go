package registration

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// Lifetimes to ask for tokens, in seconds.
const (
	DefaultTokenExpiration = 31536000
	MinTokenExpiration     = 600
)

// Token is what a service account's token says about itself.
type Token struct {
	IssuedAt, Expires time.Time
	// UID is the service account's.
	UID types.UID
}

// ParseToken reads a token without verifying it: it is the hub who does. Errors don't
// hold the token.
func ParseToken(token []byte) (Token, error) {
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return Token{}, fmt.Errorf("it is no token of a service account, which has 3 parts and not %d", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Token{}, errors.New("it is no token of a service account: its second part is not base64")
	}
	var claims struct {
		IssuedAt   *int64 `json:"iat"`
		Expires    *int64 `json:"exp"`
		Kubernetes struct {
			ServiceAccount struct {
				UID types.UID `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Token{}, errors.New("it is no token of a service account: its second part is not JSON with numbers for iat and exp")
	}
	switch {
	case claims.IssuedAt == nil:
		return Token{}, errors.New("it does not say when it was issued (iat)")
	case claims.Expires == nil:
		return Token{}, errors.New("it does not say when it expires (exp)")
	case *claims.Expires <= *claims.IssuedAt:
		return Token{}, errors.New("it expires before it was issued")
	}
	return Token{
		IssuedAt: time.Unix(*claims.IssuedAt, 0), Expires: time.Unix(*claims.Expires, 0), UID: claims.Kubernetes.ServiceAccount.UID,
	}, nil
}

// Check explains why a token is not to be used any more, or nil.
func (t Token) Check(uid types.UID, now time.Time) error {
	switch {
	case t.UID != uid:
		return fmt.Errorf("it is of a service account with the UID %q, and not %q", t.UID, uid)
	case !now.Before(t.Expires):
		return fmt.Errorf("it expired at %s", t.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// RefreshAt is when to get another token: when a fifth of its life remains.
func (t Token) RefreshAt() time.Time { return t.Expires.Add(-t.Expires.Sub(t.IssuedAt) / 5) }

// ConditionTokenInfrastructureReady says whether the hub has made the service account
// of an add-on. Its message has the UID of the service account.
const ConditionTokenInfrastructureReady = "TokenInfrastructureReady"

// Reasons of ConditionTokenInfrastructureReady.
const (
	ReasonTokenInfrastructureReady       = "TokenInfrastructureReady"
	ReasonTokenInfrastructureApplyFailed = "TokenInfrastructureApplyFailed"
	// FormatTokenInfrastructureApplyFailed takes the error.
	FormatTokenInfrastructureApplyFailed = "Failed to apply token infrastructure: %v"
)

// TokenInfrastructureMessage is the message of a condition
// ConditionTokenInfrastructureReady that is True.
func TokenInfrastructureMessage(namespace, name string, uid types.UID) string {
	return fmt.Sprintf("ServiceAccount %s/%s (UID: %s) is ready", namespace, name, uid)
}

// ServiceAccountUID reads the UID out of such a message.
func ServiceAccountUID(message string) (types.UID, error) {
	_, rest, found := strings.Cut(message, "UID: ")
	uid, _, closed := strings.Cut(rest, ")")
	if uid = strings.TrimSpace(uid); !found || !closed || uid == "" {
		return "", fmt.Errorf("the message of the condition %s has no UID of the service account, as in %q",
			ConditionTokenInfrastructureReady, TokenInfrastructureMessage("c1", "a-agent", "0123"))
	}
	return types.UID(uid), nil
}

// ErrTokenInfrastructure is that the hub has not made the service account of an add-on
// yet, or could not.
var ErrTokenInfrastructure = errors.New("the hub has not made the service account of the add-on yet")

// AnnouncedUID is the UID of the service account that the hub has made for an add-on.
func AnnouncedUID(a *addonv1beta1.ManagedClusterAddOn) (types.UID, error) {
	c := meta.FindStatusCondition(a.Status.Conditions, ConditionTokenInfrastructureReady)
	switch {
	case c == nil:
		return "", ErrTokenInfrastructure
	case c.Status != metav1.ConditionTrue:
		return "", fmt.Errorf("%w: %s", ErrTokenInfrastructure, c.Message)
	}
	return ServiceAccountUID(c.Message)
}
