package registration_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
)

func token(claims string) []byte {
	return []byte("eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl")
}

func TestParseToken(t *testing.T) {
	for name, x := range map[string]struct {
		token []byte
		want  string
	}{
		"whole":                     {token(`{"iat":1000,"exp":2000,"kubernetes.io":{"serviceaccount":{"uid":"u1"}}}`), ""},
		"no UID":                    {token(`{"iat":1000,"exp":2000}`), ""},
		"nothing":                   {nil, "3 parts and not 1"},
		"two parts":                 {[]byte("a.b"), "3 parts and not 2"},
		"four parts":                {append(token(`{"iat":1,"exp":2}`), []byte(".x")...), "3 parts and not 4"},
		"not base64":                {[]byte("a.*.c"), "not base64"},
		"not JSON":                  {[]byte("a.YQ.c"), "not JSON"},
		"times in words":            {token(`{"iat":"now","exp":2000}`), "not JSON with numbers"},
		"no iat":                    {token(`{"exp":2000}`), "(iat)"},
		"no exp":                    {token(`{"iat":1000}`), "(exp)"},
		"expires as it is issued":   {token(`{"iat":1000,"exp":1000}`), "expires before"},
		"expires before its issued": {token(`{"iat":1000,"exp":999}`), "expires before"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := registration.ParseToken(x.token)
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Fatalf("got %v, want %q", err, x.want)
			}
			if err == nil && (got.IssuedAt.Unix() != 1000 || got.Expires.Unix() != 2000) {
				t.Errorf("got %+v", got)
			}
			if err != nil && len(x.token) > 10 && strings.Contains(err.Error(), string(x.token[:10])) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

func TestTokenIsUsedUntilAFifthOfItsLifeRemains(t *testing.T) {
	got, err := registration.ParseToken(token(`{"iat":1000,"exp":2000,"kubernetes.io":{"serviceaccount":{"uid":"u1"}}}`))
	if err != nil || got.RefreshAt().Unix() != 1800 {
		t.Errorf("refreshed at %d (%v)", got.RefreshAt().Unix(), err)
	}
	for _, x := range []struct {
		uid  string
		at   int64
		want string
	}{
		{"u1", 1999, ""},
		{"u1", 2000, "it expired at 1970-01-01T00:33:20Z"},
		{"u2", 1500, `UID "u1", and not "u2"`},
	} {
		err := got.Check("u1", time.Unix(x.at, 0))
		if x.uid != "u1" {
			err = got.Check("u2", time.Unix(x.at, 0))
		}
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: got %v", x, err)
		}
	}
}

func TestAnnouncedUID(t *testing.T) {
	ready := registration.TokenInfrastructureMessage("c1", "a-agent", "0a1b")
	if ready != "ServiceAccount c1/a-agent (UID: 0a1b) is ready" {
		t.Errorf("got %s", ready)
	}
	for name, x := range map[string]struct {
		status  metav1.ConditionStatus
		message string
		uid     string
		waits   bool
	}{
		"ready":                    {metav1.ConditionTrue, ready, "0a1b", false},
		"not yet":                  {"", "", "", true},
		"failed":                   {metav1.ConditionFalse, "Failed to apply token infrastructure: x", "", true},
		"failed, with a UID in it": {metav1.ConditionFalse, ready, "", true},
		"no UID":                   {metav1.ConditionTrue, "ServiceAccount c1/a-agent is ready", "", false},
		"UID without an end":       {metav1.ConditionTrue, "ServiceAccount c1/a-agent (UID: 0a1b", "", false},
		"empty UID":                {metav1.ConditionTrue, "ServiceAccount c1/a-agent (UID: ) is ready", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := addOn(nil)
			if x.status != "" {
				a.Status.Conditions = []metav1.Condition{{Type: "TokenInfrastructureReady", Status: x.status, Message: x.message}}
			}
			uid, err := registration.AnnouncedUID(a)
			if string(uid) != x.uid || (err == nil) != (x.uid != "") || errors.Is(err, registration.ErrTokenInfrastructure) != x.waits {
				t.Errorf("got %q, %v", uid, err)
			}
		})
	}
}
