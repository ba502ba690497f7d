package kubeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// Who vouches for a server is an authority's key, unless it is a public authority: that
// vouches for everybody's server, and the name counts.
func TestAuthorities(t *testing.T) {
	ca, server := testkit.Serving(t)
	leaf, err := x509.ParseCertificate(server.Certificate[0])
	testkit.Must(t, err)
	root, err := x509.ParseCertificate(server.Certificate[1])
	testkit.Must(t, err)
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf, root}, VerifiedChains: [][]*x509.Certificate{{leaf, root}}}
	private := authorities(state, "localhost", x509.NewCertPool())
	if len(private) != 1 || CheckAuthority(private[0]) != nil || !strings.HasPrefix(private[0], "sha256:") {
		t.Errorf("a private authority is %q", private)
	}
	public := x509.NewCertPool()
	public.AppendCertsFromPEM(ca)
	if got := authorities(state, "LOCALHOST", public); !slices.Equal(got, []string{"dns:localhost"}) || CheckAuthority(got[0]) != nil {
		t.Errorf("a public authority is %q", got)
	}
	if got := authorities(state, "elsewhere", public); slices.Contains(got, "dns:elsewhere") {
		t.Errorf("a certificate for another name is %q", got)
	}
	if got := authorities(tls.ConnectionState{}, "localhost", public); len(got) > 0 {
		t.Errorf("no certificate is %q", got)
	}
	for _, bad := range []string{"", "sha256:", "sha256:xyz", "dns:", "dns:a b", "u", strings.ToUpper(private[0])} {
		if CheckAuthority(bad) == nil {
			t.Errorf("%q is taken for an authority", bad)
		}
	}
}
