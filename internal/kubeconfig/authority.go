package kubeconfig

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// What an authority begins with.
const (
	authorityKey  = "sha256:"
	authorityName = "dns:"
)

// Authorities are who vouches for an API server on a connection that was verified:
// "sha256:" and the hash of an authority's public key, the root's first, for each that
// has signed. Where the machine's own, public authorities vouch for it, they do so for
// everybody's server, and what counts is the server's name: "dns:" and host.
func Authorities(state tls.ConnectionState, host string) []string {
	system, err := x509.SystemCertPool()
	if err != nil {
		system = x509.NewCertPool()
	}
	return authorities(state, host, system)
}

func authorities(state tls.ConnectionState, host string, public *x509.CertPool) []string {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	options := x509.VerifyOptions{Roots: public, Intermediates: intermediates, DNSName: host}
	if _, err := state.PeerCertificates[0].Verify(options); err == nil {
		return []string{authorityName + strings.ToLower(host)}
	}
	var found []string
	for _, chain := range state.VerifiedChains {
		signers := chain
		if len(chain) > 1 { // otherwise the kubeconfig trusts the certificate itself
			signers = chain[1:]
		}
		for _, c := range slices.Backward(signers) {
			sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
			if is := authorityKey + hex.EncodeToString(sum[:]); !slices.Contains(found, is) {
				found = append(found, is)
			}
		}
	}
	return found
}

var keyHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// CheckAuthority says why a text is none that Authorities returns.
func CheckAuthority(text string) error {
	hash, isKey := strings.CutPrefix(text, authorityKey)
	name, isName := strings.CutPrefix(text, authorityName)
	switch {
	case isKey && keyHash.MatchString(hash):
		return nil
	case isName && len(validation.IsDNS1123Subdomain(name)) == 0:
		return nil
	}
	if _, err := netip.ParseAddr(name); isName && err == nil {
		return nil
	}
	return errors.New(`it has to be "sha256:" with the SHA-256 of the public key of the cluster's authority in 64 hexadecimal ` +
		`digits, or "dns:" with the server's name, as in the condition KubeconfigUsable of the import`)
}
