package access

import (
	"crypto/ecdh"
	"crypto/hpke"
	"errors"
	"fmt"
)

// sealInfo binds what is sealed to its purpose.
const sealInfo = "muster-fleet.io/v1alpha1 access token"

// Seal encrypts a token so that only the holder of the X25519 private key can read
// it: HPKE (RFC 9180) with HKDF-SHA256 and AES-256-GCM. context is bound to it,
// such as the UID of the access request, and Open needs the same.
func Seal(publicKey, token []byte, context string) ([]byte, error) {
	raw, err := ecdh.X25519().NewPublicKey(publicKey)
	if err != nil {
		return nil, fmt.Errorf("sealTo is no X25519 public key: %w", err)
	}
	key, err := hpke.NewDHKEMPublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("sealTo is no X25519 public key: %w", err)
	}
	return hpke.Seal(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(sealInfo+"\x00"+context), token)
}

// Open decrypts what Seal made.
func Open(privateKey *ecdh.PrivateKey, sealed []byte, context string) ([]byte, error) {
	key, err := hpke.NewDHKEMPrivateKey(privateKey)
	if err != nil {
		return nil, fmt.Errorf("the key is no X25519 private key: %w", err)
	}
	token, err := hpke.Open(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(sealInfo+"\x00"+context), sealed)
	if err != nil {
		return nil, errors.New("the token is not sealed to this key, or is for another request")
	}
	return token, nil
}
