package access

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/pem"
	"errors"
	"fmt"
)

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
