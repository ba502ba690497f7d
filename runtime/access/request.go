package access

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	requestType     = "CERTIFICATE REQUEST"
	certificateType = "CERTIFICATE"
	minRSABits      = 3072
)

// NewRequest makes a certificate request in PEM for a user of a hub.
func NewRequest(key crypto.Signer, hubID, user string) ([]byte, error) {
	hash, err := KeyHash(key.Public())
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: Subject(hubID, user, hash)}, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: requestType, Bytes: der}), nil
}

// CheckRequest reads a certificate request in PEM for a user of a hub, and returns
// the hash of its key. It refuses everything that muster does not let a user ask
// for: another subject, names or extensions, weak keys, and a signature by another
// key.
func CheckRequest(data []byte, hubID, user string) (keyHash string, err error) {
	block, rest := pem.Decode(data)
	switch {
	case block == nil:
		return "", errors.New("it is not PEM; make it with `muster access request` or openssl")
	case block.Type != requestType:
		return "", fmt.Errorf("it is a PEM block %q, and must be a %q", block.Type, requestType)
	case len(bytes.TrimSpace(rest)) > 0:
		return "", errors.New("something follows the certificate request; it must be alone")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("it can't be read: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return "", fmt.Errorf("its signature is not by its key: %w", err)
	}
	if err := strongKey(csr.PublicKey); err != nil {
		return "", err
	}
	if keyHash, err = KeyHash(csr.PublicKey); err != nil {
		return "", err
	}
	if want := Subject(hubID, user, keyHash); !sameSubject(csr.Subject, want) {
		return "", fmt.Errorf("its subject is %q, and must be %q", csr.Subject, want)
	}
	if len(csr.Extensions) > 0 || len(csr.DNSNames)+len(csr.EmailAddresses)+len(csr.IPAddresses)+len(csr.URIs) > 0 {
		return "", errors.New("it asks for extensions or further names; leave them out")
	}
	return keyHash, nil
}

func strongKey(key any) error {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() {
			return fmt.Errorf("its key is on the curve %s; use P-256 or P-384", k.Curve.Params().Name)
		}
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return fmt.Errorf("its RSA key has %d bits; use at least %d, or ECDSA P-256", k.N.BitLen(), minRSABits)
		}
	default:
		return fmt.Errorf("its key is a %T; use ECDSA P-256 or P-384, or RSA of at least %d bits", key, minRSABits)
	}
	return nil
}

// ReadCertificate reads a chain in PEM and returns its first certificate, after
// checking that it is a client certificate for a user of a hub with the key.
func ReadCertificate(chain []byte, hubID, user, keyHash string) (*x509.Certificate, error) {
	block, rest := pem.Decode(chain)
	if block == nil || block.Type != certificateType {
		return nil, errors.New("the answer is not a certificate in PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate can't be read: %w", err)
	}
	for len(bytes.TrimSpace(rest)) > 0 {
		if block, rest = pem.Decode(rest); block == nil || block.Type != certificateType {
			return nil, errors.New("something that is not a certificate follows the certificate")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("a certificate of the chain can't be read: %w", err)
		}
	}
	hash, err := KeyHash(leaf.PublicKey)
	if err != nil {
		return nil, err
	}
	want := Subject(hubID, user, keyHash)
	switch {
	case hash != keyHash:
		return nil, errors.New("the certificate is for another key")
	case leaf.Subject.CommonName != want.CommonName || len(leaf.Subject.Organization) != 1 || leaf.Subject.Organization[0] != want.Organization[0]:
		return nil, fmt.Errorf("the certificate is for %q, and must be for %q", leaf.Subject, want)
	case leaf.IsCA:
		return nil, errors.New("the certificate is an authority's")
	}
	return leaf, nil
}

// sealInfo binds what is sealed to its purpose.
const sealInfo = "muster-fleet.io/v1alpha1 access token"

// Seal encrypts a token so that only the holder of the X25519 private key can read
// it: HPKE (RFC 9180) with HKDF-SHA256 and AES-256-GCM. context is bound to it,
// such as the UID of the access request, and Open needs the same.
func Seal(publicKey, token []byte, context string) ([]byte, error) {
	raw, err := sealKey(publicKey)
	if err != nil {
		return nil, err
	}
	key, err := hpke.NewDHKEMPublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("sealTo is not an X25519 public key: %w", err)
	}
	return hpke.Seal(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(sealInfo+"\x00"+context), token)
}

// Open decrypts what Seal made.
func Open(privateKey *ecdh.PrivateKey, sealed []byte, context string) ([]byte, error) {
	key, err := hpke.NewDHKEMPrivateKey(privateKey)
	if err != nil {
		return nil, fmt.Errorf("the key is not an X25519 private key: %w", err)
	}
	token, err := hpke.Open(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(sealInfo+"\x00"+context), sealed)
	if err != nil {
		return nil, errors.New("the token is not sealed to this key, or is for another request")
	}
	return token, nil
}

// CheckSealTo checks a public key that tokens are to be sealed to, and returns its
// hash, by which rights are bound where there is no certificate. The hash covers
// the kind of key, so no certificate's key has the same. request is the
// certificate request beside it, if there is one: a key is for one purpose only.
func CheckSealTo(publicKey, request []byte) (keyHash string, err error) {
	key, err := sealKey(publicKey)
	if err != nil {
		return "", err
	}
	if block, _ := pem.Decode(request); block != nil && bytes.Contains(block.Bytes, publicKey) {
		return "", errors.New("sealTo is the key of the certificate request; make another one for tokens")
	}
	return KeyHash(key)
}

// sealKey reads a public key. Those few with which every secret would be the same
// are refused.
func sealKey(publicKey []byte) (*ecdh.PublicKey, error) {
	key, err := ecdh.X25519().NewPublicKey(publicKey)
	if err != nil {
		return nil, fmt.Errorf("sealTo is not an X25519 public key: %w", err)
	}
	any, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		return nil, err
	}
	if _, err := any.ECDH(key); err != nil {
		return nil, errors.New("sealTo is an X25519 public key with which nothing is secret; make another one")
	}
	return key, nil
}
