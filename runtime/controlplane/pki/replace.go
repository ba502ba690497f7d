package pki

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
)

// Files of an authority that has taken the place of another one.
const (
	// previousFile has the certificates of the authorities before, which are
	// still trusted.
	previousFile = "previous-ca.crt"
	// crossFile has the present authority's certificate as signed by the one
	// before. A server shows it, so that clients that only trust that one verify
	// the server by it.
	crossFile = "ca-cross.crt"
	// pendingCert and pendingKey are the new authority until it is in its place.
	pendingCert, pendingKey = "ca.new.crt", "ca.new.key"
)

// ErrNothingToRetire says that an authority has taken no other one's place.
var ErrNothingToRetire = errors.New("there is no former certificate authority")

// Replace puts a new authority, named commonName, in the place of the one in dir.
// Clients that trust the old one go on to verify servers, and certificates that it
// has signed stay good, until Retire. What is interrupted can be repeated.
func Replace(dir, commonName string, now time.Time) (*Authority, error) {
	old, err := load(dir)
	if err != nil {
		return nil, err
	}
	if len(old.previous) > 0 {
		return nil, fmt.Errorf("the certificate authority in %s has taken another one's place already, which is in %s: retire that one first",
			dir, filepath.Join(dir, previousFile))
	}
	next := &Authority{CertFile: filepath.Join(dir, pendingCert), KeyFile: filepath.Join(dir, pendingKey)}
	for _, left := range []string{next.CertFile, next.KeyFile} {
		if err := remove(left); err != nil {
			return nil, err
		}
	}
	if err := next.create(fmt.Sprintf("%s@%d", commonName, now.Unix()), now); err != nil {
		return nil, err
	}
	_, cross, err := sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: next.cert.Subject.CommonName},
		NotBefore: now.Add(-backdate), NotAfter: old.cert.NotAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: next.cert.KeyUsage, SubjectKeyId: next.cert.SubjectKeyId,
	}, old.cert, next.key.Public(), old.key)
	if err != nil {
		return nil, fmt.Errorf("sign the new certificate authority with the old one: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, crossFile), cross, 0o644); err != nil {
		return nil, err
	}
	if err := atomicfile.Write(filepath.Join(dir, previousFile), old.CertPEM, 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(next.KeyFile, old.KeyFile); err != nil {
		return nil, err
	}
	if err := os.Rename(next.CertFile, old.CertFile); err != nil {
		return nil, err
	}
	return load(dir)
}

// Retire ends the trust in the authorities before the present one.
func Retire(dir string) error {
	a, err := load(dir)
	if err != nil {
		return err
	}
	if len(a.previous) == 0 {
		return ErrNothingToRetire
	}
	return errors.Join(remove(filepath.Join(dir, crossFile)), remove(filepath.Join(dir, previousFile)))
}

// readPrevious reads what is left of the authorities before.
func (a *Authority) readPrevious(dir string) error {
	previous, err := os.ReadFile(filepath.Join(dir, previousFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// The file is written before the new authority is in its place.
	if bytes.Equal(bytes.TrimSpace(previous), bytes.TrimSpace(a.CertPEM)) {
		return nil
	}
	cross, err := os.ReadFile(filepath.Join(dir, crossFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	a.previous, a.cross = previous, cross
	return nil
}

// finishReplace puts the new authority's certificate in its place when its key is
// there already.
func finishReplace(dir string, key []byte) error {
	pending := filepath.Join(dir, pendingCert)
	certPEM, err := os.ReadFile(pending)
	if err != nil {
		return err
	}
	if _, _, err := pair(certPEM, key); err != nil {
		return err
	}
	return os.Rename(pending, filepath.Join(dir, "ca.crt"))
}

// BundlePEM are the certificates by which to verify what the authority has signed
// and what those before have signed; its own comes first.
func (a *Authority) BundlePEM() []byte {
	if len(a.previous) == 0 {
		return a.CertPEM
	}
	return append(append(bytes.TrimSpace(bytes.Clone(a.CertPEM)), '\n'), a.previous...)
}

func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
