// Package pki makes and keeps the keys and certificates of a control plane: a
// certificate authority of its own, the serving certificate, client
// certificates for administrators, and the key that signs service-account
// tokens.
//
// Keys are ECDSA P-256. The authority lives ten years; what it signs here is
// short-lived and re-issued by Rotate long before it ends.
package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
)

const (
	// authorityLifetime is how long the certificate authority is valid.
	authorityLifetime = 10 * 365 * 24 * time.Hour

	// backdate is taken off NotBefore, so that a peer whose clock is a little
	// behind accepts a fresh certificate.
	backdate = 5 * time.Minute
)

// Authority is a certificate authority whose certificate and key are files.
type Authority struct {
	// CertFile and KeyFile are where the authority is kept, PEM-encoded.
	CertFile, KeyFile string
	// CertPEM is the authority's certificate, for clients that verify by it.
	CertPEM []byte

	cert *x509.Certificate
	key  crypto.Signer
	// previous are the authorities whose place this one has taken, and cross its
	// own certificate as signed by the last of them; see Replace.
	previous, cross []byte
}

// LoadOrCreateAuthority reads the authority ca.crt and ca.key in dir, or makes
// one, named commonName, when neither file is there. One file without the
// other is an error: making a new pair would lock every joined cluster out.
func LoadOrCreateAuthority(dir, commonName string, now time.Time) (*Authority, error) {
	a, err := load(dir)
	if errors.Is(err, errNoAuthority) {
		a = &Authority{CertFile: filepath.Join(dir, "ca.crt"), KeyFile: filepath.Join(dir, "ca.key")}
		return a, a.create(commonName, now)
	}
	return a, err
}

var (
	errNoAuthority = errors.New("there is no certificate authority")
	errNotThePair  = errors.New("the key is another certificate's")
)

// load reads the authority in dir; errNoAuthority when there is none.
func load(dir string) (*Authority, error) {
	a := &Authority{CertFile: filepath.Join(dir, "ca.crt"), KeyFile: filepath.Join(dir, "ca.key")}
	certPEM, certErr := os.ReadFile(a.CertFile)
	keyPEM, keyErr := os.ReadFile(a.KeyFile)
	switch {
	case errors.Is(certErr, os.ErrNotExist) && errors.Is(keyErr, os.ErrNotExist):
		return nil, fmt.Errorf("%w in %s", errNoAuthority, dir)
	case certErr != nil || keyErr != nil:
		return nil, fmt.Errorf("certificate authority: %w: restore the missing file from a backup; clusters that joined trust just this pair", errors.Join(certErr, keyErr))
	}
	cert, key, err := pair(certPEM, keyPEM)
	if errors.Is(err, errNotThePair) && finishReplace(dir, keyPEM) == nil {
		return load(dir)
	}
	switch {
	case errors.Is(err, errNotThePair):
		return nil, fmt.Errorf("certificate authority: %s is not the key of %s: restore the pair from one backup", a.KeyFile, a.CertFile)
	case err != nil:
		return nil, fmt.Errorf("certificate authority %s, %s: %w: restore both files from one backup; "+
			"clusters that joined trust just this pair", a.CertFile, a.KeyFile, err)
	}
	a.CertPEM, a.cert, a.key = certPEM, cert, key
	return a, a.readPrevious(dir)
}

// pair reads a certificate and its key.
func pair(certPEM, keyPEM []byte) (*x509.Certificate, crypto.Signer, error) {
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("read the key: %w", err)
	}
	if pub, ok := key.Public().(*ecdsa.PublicKey); !ok || !pub.Equal(cert.PublicKey) {
		return nil, nil, errNotThePair
	}
	return cert, key, nil
}

// Expires is when the authority's certificate does.
func (a *Authority) Expires() time.Time { return a.cert.NotAfter }

func (a *Authority) create(commonName string, now time.Time) error {
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	cert, certPEM, err := sign(template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make the certificate authority: %w", err)
	}
	// The key goes first: a certificate without its key cannot be used, and
	// the next start says so; the other way round a crash would go unseen.
	if err := atomicfile.Write(a.KeyFile, keyPEM, 0o600); err != nil {
		return err
	}
	if err := atomicfile.Write(a.CertFile, certPEM, 0o644); err != nil {
		return errors.Join(err, os.Remove(a.KeyFile))
	}
	a.CertPEM, a.cert, a.key = certPEM, cert, key
	return nil
}

// Request says what certificate to issue.
type Request struct {
	CommonName    string
	Organizations []string
	// Hosts are DNS names and IP addresses; a certificate with hosts is for a
	// server, one without is for a client.
	Hosts    []string
	Lifetime time.Duration
}

// Issue makes a key and a certificate for it, PEM-encoded.
func (a *Authority) Issue(r Request, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: r.CommonName, Organization: r.Organizations},
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(r.Lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(r.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	_, certPEM, err = sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate for %q: %w", r.CommonName, err)
	}
	if len(r.Hosts) > 0 {
		certPEM = append(certPEM, a.cross...)
	}
	return certPEM, keyPEM, nil
}

// LoadOrCreateKey makes the PEM-encoded private key at name when it is not
// there, and returns a hash that distinguishes it from others. It serves to sign
// service-account tokens, and so to verify them.
func LoadOrCreateKey(name string) (hash string, err error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		if _, b, err = newKey(); err != nil {
			return "", err
		}
		err = atomicfile.Write(name, b, 0o600)
	}
	if err != nil {
		return "", err
	}
	key, err := parseKey(b)
	if err != nil {
		return "", fmt.Errorf("key %s: %w: restore it from a backup; the tokens of service accounts are signed with it", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("key %s: %w", name, err)
	}
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:]), nil
}

// ParseCertificate reads the first certificate of a PEM file.
func ParseCertificate(pemBytes []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(pemBytes)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM block of type CERTIFICATE in it")
	}
	return x509.ParseCertificate(block.Bytes)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func parseKey(pemBytes []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(pemBytes)
	if block == nil || block.Type != "EC PRIVATE KEY" {
		return nil, errors.New("no PEM block of type EC PRIVATE KEY in it")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func sign(template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) (*x509.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// retryAfter is the pause before a failed re-issue is tried again. A
// certificate is renewed with a third of its life left, so there is time.
const retryAfter = time.Minute

// RenewAt is the moment from which a certificate issued at now for lifetime
// should be replaced: two thirds into its life.
func RenewAt(now time.Time, lifetime time.Duration) time.Time {
	return now.Add(lifetime * 2 / 3)
}

// Rotate calls issue whenever two thirds of lifetime have passed since the
// last time that it succeeded, until ctx ends. The caller has issued once
// before. What issue is for is named in the log when it fails.
func Rotate(ctx context.Context, clk clock.Clock, lifetime time.Duration, what string, issue func(now time.Time) error) {
	next := RenewAt(clk.Now(), lifetime)
	for {
		timer := clk.NewTimer(next.Sub(clk.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		if err := issue(clk.Now()); err != nil {
			logging.FromContext(ctx).Error("a certificate could not be renewed, trying again", "certificate", what, "in", retryAfter, "err", err)
			next = clk.Now().Add(retryAfter)
			continue
		}
		logging.FromContext(ctx).Info("renewed a certificate", "certificate", what, "lifetime", lifetime)
		next = RenewAt(clk.Now(), lifetime)
	}
}
