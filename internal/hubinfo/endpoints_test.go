package hubinfo_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
)

// authority is the certificate of a new authority.
func authority(t *testing.T) []byte {
	t.Helper()
	a, err := pki.LoadOrCreateAuthority(t.TempDir(), "ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a.CertPEM
}

func TestEndpointsKeepTheirContent(t *testing.T) {
	e := hubinfo.Endpoints{
		URLs: []string{"https://new:6443", "https://old"}, FormerURLs: []string{"https://oldest"},
		CABundle: slices.Concat(authority(t), authority(t)), Generation: 7, HubUID: "uid",
	}
	back, err := hubinfo.ParseEndpoints(e.Data())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.URLs, e.URLs) || !slices.Equal(back.FormerURLs, e.FormerURLs) || string(back.CABundle) != string(e.CABundle) ||
		back.Generation != 7 || back.HubUID != "uid" {
		t.Errorf("got %+v, want %+v", back, e)
	}
}

func TestEndpointsThatNobodyCanGoBy(t *testing.T) {
	for _, tc := range []struct{ name, key, value, want string }{
		{"no generation", "generation", "", "generation"},
		{"a generation that is none", "generation", "two", `"two"`},
		{"a generation below one", "generation", "0", `"0"`},
		{"no UID", "hubUID", "", "hubUID"},
		{"no authority", "ca.crt", "", "no certificate"},
		{"a key among the authorities", "ca.crt", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", "EC PRIVATE KEY"},
		{"a broken authority", "ca.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ca.crt"},
		{"no TLS", "urls", "https://one\nhttp://two", `"http://two"`},
		{"no scheme", "urls", "hub:6443", `"hub:6443"`},
		{"credentials in the URL", "urls", "https://a:b@hub", `"https://a:b@hub"`},
		{"a path", "urls", "https://hub/elsewhere", "elsewhere"},
		{"a query", "urls", "https://hub?x=y", "x=y"},
		{"too many URLs", "urls", strings.Repeat("https://hub\n", 17), "17"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := hubinfo.Endpoints{CABundle: authority(t), Generation: 1, HubUID: "uid"}.Data()
			if _, err := hubinfo.ParseEndpoints(data); err != nil {
				t.Fatal(err)
			}
			data[tc.key] = tc.value
			if _, err := hubinfo.ParseEndpoints(data); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %s", err, tc.want)
			}
		})
	}
}

func TestNextGeneration(t *testing.T) {
	a, b := authority(t), authority(t)
	first := hubinfo.Next(hubinfo.Endpoints{}, []string{"https://old"}, a, "")
	for _, tc := range []struct {
		name       string
		before     hubinfo.Endpoints
		urls       []string
		bundle     []byte
		used       string
		generation int64
		former     []string
	}{
		{"nothing before", hubinfo.Endpoints{}, nil, a, "", 1, nil},
		{"the same again", first, []string{"https://old"}, a, "https://old", 1, nil},
		{"the same, written in another way", first, []string{"https://old"}, append([]byte("\n"), a...), "https://OLD:443/", 1, nil},
		{"another URL first", first, []string{"https://new", "https://old"}, a, "https://old", 2, nil},
		{"the old URL withdrawn", first, []string{"https://new"}, a, "https://old", 2, []string{"https://old"}},
		{"an old URL that new agents got, before there were any", hubinfo.Endpoints{}, []string{"https://new"}, a, "https://10.0.0.1:6443", 1, []string{"https://10.0.0.1:6443"}},
		{"no URL any more", first, nil, a, "https://old", 2, []string{"https://old"}},
		{"one that changes with each start", hubinfo.Endpoints{}, nil, a, "https://127.0.0.1:40000", 1, nil},
		{"another authority", first, []string{"https://old"}, b, "", 2, nil},
		{"one more authority", first, []string{"https://old"}, slices.Concat(a, b), "", 2, nil},
		{"a number that somebody has written", hubinfo.Endpoints{Generation: 41}, []string{"https://old"}, a, "", 42, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			next := hubinfo.Next(tc.before, tc.urls, tc.bundle, tc.used)
			if next.Generation != tc.generation || !slices.Equal(next.FormerURLs, tc.former) || !slices.Equal(next.URLs, tc.urls) {
				t.Errorf("got generation %d, former %v, want %d, %v", next.Generation, next.FormerURLs, tc.generation, tc.former)
			}
		})
	}
	many := first
	for i := range 100 {
		many = hubinfo.Next(many, []string{"https://" + strings.Repeat("x", i+1)}, a, "")
	}
	many.HubUID = "uid"
	if _, err := hubinfo.ParseEndpoints(many.Data()); err != nil {
		t.Errorf("after many changes: %v", err)
	}
}

func TestSameURL(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"https://hub", "https://hub:443/", true},
		{"https://Hub.Example.org:6443", "https://hub.example.org:6443", true},
		{"https://[::1]:6443", "https://[::1]:6443/", true},
		{"https://hub:6443", "https://hub", false},
		{"https://hub", "http://hub", false},
		{"https://hub/a", "https://hub/b", false},
		{"", "https://hub", false},
	} {
		if got := hubinfo.SameURL(tc.a, tc.b); got != tc.want {
			t.Errorf("%q and %q: got %v", tc.a, tc.b, got)
		}
	}
}

func TestBundlesAreComparedByTheirCertificates(t *testing.T) {
	a, b := authority(t), authority(t)
	if !hubinfo.SameBundle(slices.Concat(a, b), slices.Concat([]byte("# a comment\n"), b, a)) || hubinfo.SameBundle(a, slices.Concat(a, b)) || hubinfo.SameBundle(a, nil) {
		t.Error("SameBundle is wrong")
	}
	if !hubinfo.ShareCertificate(slices.Concat(a, b), b) || hubinfo.ShareCertificate(a, b) || hubinfo.ShareCertificate(nil, nil) {
		t.Error("ShareCertificate is wrong")
	}
}
