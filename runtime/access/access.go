// Package access is what hub, agents and clients have in common about user access:
// the subject of a user's certificate, the check of certificate requests and
// certificates, the sealing of tokens, and the manifests' names. It is pure:
// values in, values out. It imports nothing of hub, agent and provider.
//
// It follows the section "User access" of docs/security.md.
package access

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// What the subjects of certificates begin with.
const (
	userPrefix = "muster:"
	keyPrefix  = "muster-key:"
	// accountPrefix is what the names of service accounts begin with.
	accountPrefix = "muster-access-"
)

// maxCommonName is how long a common name may be: OpenSSL refuses longer ones.
const maxCommonName = 64

// hubIDLength is as much of the hash of a hub's UID as a subject carries.
const hubIDLength = 8

// keyHashLength is as much of a public key's SHA-256 as a subject carries: 128
// bits, in hexadecimal digits.
const keyHashLength = 32

// HubID is a short name of a hub, given the UID of its namespace kube-system. It
// keeps the users of two hubs apart in a cluster that both reach.
func HubID(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:])[:hubIDLength]
}

// CommonName is the name that a cluster knows a user of a hub by. A user name that
// is too long for a certificate ends in its hash.
func CommonName(hubID, user string) string {
	name := userPrefix + hubID + ":" + user
	if len(name) <= maxCommonName {
		return name
	}
	sum := sha256.Sum256([]byte(user))
	digest := hex.EncodeToString(sum[:])[:16]
	return strings.ToValidUTF8(name[:maxCommonName-len(digest)-1], "") + "-" + digest
}

// KeyHash identifies a public key: the first 32 hexadecimal digits of the SHA-256
// of its PKIX form.
func KeyHash(publicKey any) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return "", fmt.Errorf("the public key can't be written: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])[:keyHashLength], nil
}

// KeyGroup is the group of a key, to which RoleBindings in clusters give rights:
// the organisation in the subject of its certificates.
func KeyGroup(keyHash string) string { return keyPrefix + keyHash }

// ServiceAccount is the name of the service account of a key, in the namespace
// muster.AccountNamespace of a logical cloud, whose tokens are issued where
// certificates are not. The key is the one that the token is sealed to.
func ServiceAccount(keyHash string) string { return accountPrefix + keyHash }

// Subject is the subject that a certificate for a user with a key must have.
func Subject(hubID, user, keyHash string) pkix.Name {
	return pkix.Name{CommonName: CommonName(hubID, user), Organization: []string{KeyGroup(keyHash)}}
}

// sameSubject reports whether a subject is the wanted one and says nothing more.
func sameSubject(got, want pkix.Name) bool {
	return got.CommonName == want.CommonName && slices.Equal(got.Organization, want.Organization) && len(got.Names) == 2
}
