package main

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestJoinManifestOptions(t *testing.T) {
	for name, x := range map[string]struct {
		j    joinManifest
		want string
	}{
		"nothing":            {joinManifest{}, ""},
		"a client ID":        {joinManifest{clientID: "s17", labels: []string{"site=17"}}, ""},
		"both":               {joinManifest{clientID: "s17", cluster: "a"}, "exclude each other"},
		"no client ID":       {joinManifest{clientID: "a b"}, "--client-id: "},
		"a reserved name":    {joinManifest{cluster: "kube-system"}, "--cluster: "},
		"labels with a name": {joinManifest{cluster: "a", labels: []string{"b=c"}}, "has no effect"},
		"no value":           {joinManifest{labels: []string{"b"}}, "write KEY=VALUE"},
		"a reserved label":   {joinManifest{labels: []string{"muster-fleet.io/a=b"}}, "may not choose"},
		"a short life":       {joinManifest{ttl: time.Second}, "1m at least"},
	} {
		if x.j.ttl == 0 {
			x.j.ttl = time.Hour
		}
		err := x.j.validate()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}

func TestJoinManifestToken(t *testing.T) {
	j := joinManifest{clientID: "s17", labels: []string{"site=17"}}
	secret := j.token("abcdef.0123456789abcdef", time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	if a := secret.Annotations; a[cluster.TokenClientIDsAnnotation] != "s17" || a[cluster.TokenAllowedLabelsAnnotation] != "site" {
		t.Errorf("annotations %v", a)
	}
	if got := secret.StringData["auth-extra-groups"]; got != cluster.BootstrapGroup || secret.StringData["expiration"] != "2026-01-01T12:00:00Z" {
		t.Errorf("the token is %v", secret.StringData)
	}
	j = joinManifest{cluster: "paris"}
	if got := j.token("abcdef.0123456789abcdef", time.Now()).StringData["auth-extra-groups"]; got != cluster.BoundBootstrapGroup("paris") {
		t.Errorf("the group is %s", got)
	}
}
