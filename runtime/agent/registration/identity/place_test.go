package identity_test

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
)

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.LoadOrCreateAuthority(t.TempDir(), "ca", start)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWanted(t *testing.T) {
	ours, next, theirs := authority(t).CertPEM, authority(t).CertPEM, authority(t).CertPEM
	both := slices.Concat(next, ours)
	for _, tc := range []struct {
		name           string
		server         string
		ca             []byte
		urls, former   []string
		bundle         []byte
		wantServer     string
		wantCA         []byte
		own, wantMoved bool
	}{
		{"where it should be", "https://a", ours, []string{"https://a"}, nil, ours, "https://a", ours, false, false},
		{"where it should be, written in another way", "https://A:443/", ours, []string{"https://a"}, nil, slices.Concat([]byte("# x\n"), ours), "https://A:443/", ours, false, false},
		{"a hub that publishes no URL", "https://a", ours, nil, nil, ours, "https://a", ours, false, false},
		{"a new authority and no URL", "https://a", ours, nil, nil, both, "https://a", both, false, true},
		{"a new URL before the old one", "https://b", ours, []string{"https://a", "https://b"}, nil, ours, "https://a", ours, false, true},
		{"the old URL withdrawn", "https://b", ours, []string{"https://a"}, []string{"https://b"}, ours, "https://a", ours, false, true},
		{"a new URL and authority", "https://b", ours, []string{"https://a", "https://b"}, nil, both, "https://a", both, false, true},
		{"the old authority withdrawn", "https://a", both, []string{"https://a"}, nil, next, "https://a", next, false, true},
		{"a URL of the owner's", "https://private", ours, []string{"https://a"}, []string{"https://b"}, ours, "https://private", ours, true, false},
		{"a URL of the owner's, and a new authority", "https://private", ours, []string{"https://a"}, nil, both, "https://private", both, true, true},
		{"a URL and an authority of the owner's", "https://private", theirs, []string{"https://a"}, nil, both, "https://private", theirs, true, false},
		{"authorities of the system", "https://b", nil, []string{"https://a", "https://b"}, nil, both, "https://a", nil, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			present := identity.Endpoint{Cluster: "hub", Server: tc.server, CAData: tc.ca, ProxyURL: "http://proxy", TLSServerName: "name"}
			got, own := identity.Wanted(present, hubinfo.Endpoints{URLs: tc.urls, FormerURLs: tc.former, CABundle: tc.bundle})
			if got.Server != tc.wantServer || string(got.CAData) != string(tc.wantCA) || own != tc.own || got.Equal(present) == tc.wantMoved {
				t.Errorf("got %s, own %v, moved %v", got.Server, own, !got.Equal(present))
			}
			if got.ProxyURL != "http://proxy" || got.TLSServerName != "name" || got.Cluster != "hub" {
				t.Errorf("proxy, name or cluster entry were lost: %+v", got)
			}
		})
	}
}

func TestAMoveIsRemembered(t *testing.T) {
	id := good(t)
	for i := range 20 {
		e := hub
		e.Server = "https://" + string(rune('a'+i))
		before := id.Hub
		id = id.MoveTo(e)
		if d := id.Differs(before); d != "" {
			t.Errorf("the endpoint before counts as another hub: %s", d)
		}
	}
	if id.WorksHost() != hub.Server {
		t.Errorf("works are accounted for under %s", id.WorksHost())
	}
	other := hub
	other.Server = "https://other"
	if id.Differs(other) == "" || len(id.Place.Same) > 16 {
		t.Errorf("every endpoint counts as the same hub: %v", id.Place.Same)
	}
	id.Place.HubUID, id.Place.Fallback, id.Place.FallbackUntil = "uid", &hub, start.Add(time.Hour)
	data, err := id.SecretData()
	if err != nil {
		t.Fatal(err)
	}
	if back := identity.FromSecret(data); !back.Equal(id) {
		t.Errorf("got %+v, want %+v", back.Place, id.Place)
	}
	data[muster.PlaceKey] = []byte("{nonsense")
	if back := identity.FromSecret(data); !back.Place.Equal(identity.Place{}) || back.Hub.Server != id.Hub.Server {
		t.Errorf("from nonsense: %+v", back)
	}
}

func TestAlternatives(t *testing.T) {
	id := good(t)
	old := hub
	old.Server, old.CAData = "https://old:6443", []byte("old ca")
	id.Place = identity.Place{URLs: []string{hub.Server, "https://second"}, Fallback: &old, FallbackUntil: start.Add(time.Hour)}
	got := id.Alternatives(start)
	if len(got) != 2 || got[0].Server != "https://second" || string(got[0].CAData) != string(hub.CAData) || !got[1].Equal(old) {
		t.Errorf("got %+v", got)
	}
	if got := id.Alternatives(start.Add(time.Hour)); len(got) != 1 {
		t.Errorf("after a day: %+v", got)
	}
}

func TestSignedByFormer(t *testing.T) {
	old, present, other := authority(t), authority(t), authority(t)
	certPEM, _, err := old.Issue(pki.Request{CommonName: "agent", Lifetime: time.Hour}, start)
	if err != nil {
		t.Fatal(err)
	}
	id := identity.Identity{CertPEM: certPEM}
	for _, tc := range []struct {
		name   string
		bundle []byte
		want   bool
	}{
		{"the one that signs now", old.CertPEM, false},
		{"a former one", slices.Concat(present.CertPEM, other.CertPEM, old.CertPEM), true},
		{"none of them", slices.Concat(present.CertPEM, other.CertPEM), false},
		{"nonsense", []byte("x"), false},
	} {
		if got := id.SignedByFormer(tc.bundle); got != tc.want {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
}
