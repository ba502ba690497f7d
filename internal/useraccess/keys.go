package useraccess

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// privateKeyType is the PEM block of a key in PKCS 8.
const privateKeyType = "PRIVATE KEY"

// Keys are what a user proves with who it is. They never leave the user's machine.
type Keys struct {
	// Certificate is the key of the client certificate: ECDSA P-256.
	Certificate *ecdsa.PrivateKey
	// Token is what tokens are sealed to: X25519.
	Token *ecdh.PrivateKey
}

// NewKeys makes keys.
func NewKeys() (Keys, error) {
	certificate, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("make a key: %w", err)
	}
	token, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("make a key: %w", err)
	}
	return Keys{Certificate: certificate, Token: token}, nil
}

// KeyPEM is the key of the certificate in PEM.
func (k Keys) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.Certificate)
	if err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyType, Bytes: der}), nil
}

// ParseKey reads what KeyPEM has written.
func ParseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != privateKeyType {
		return nil, errors.New("it is not a private key in PEM (PKCS 8)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the private key is a %T, and must be an ECDSA key", key)
	}
	return own, nil
}
