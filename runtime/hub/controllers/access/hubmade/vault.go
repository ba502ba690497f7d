// Package hubmade does what the key policy HubMade of a logical cloud asks for, as
// EMCO's DCM does it: the hub makes one key for each user that the grants name, asks
// for access with it to each cluster, renews it, and hands the key out only inside
// the finished kubeconfig.
//
// Keys are in Secrets of one namespace, encrypted with a key that comes from the
// hub's data directory. Neither the store nor a copy of it has them in clear.
package hubmade

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	// secretType is the type of the Secrets with keys.
	secretType corev1.SecretType = "muster-fleet.io/access-key"
	// sealedData is their entry with the encrypted keys.
	sealedData = "sealed"
	// keptKeys is how many keys of a user are kept: the newest is in use, and
	// those before it as long as certificates of them are.
	keptKeys = 5
)

// Vault keeps the keys of users.
type Vault struct {
	client client.Client
	aead   cipher.AEAD
}

// NewVault makes a vault whose content is encrypted with a key of 32 bytes. The
// client reads from the server.
func NewVault(c client.Client, key []byte) (*Vault, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("the key for access keys: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Vault{client: c, aead: aead}, nil
}

// Ring are the keys of a user of a cloud, the newest first.
type Ring []useraccess.Keys

// Find is the key with a hash: that of its certificates or, in mode Token, of what
// tokens are sealed to.
func (r Ring) Find(hash string) (useraccess.Keys, bool) {
	for _, k := range r {
		for _, public := range []any{k.Certificate.Public(), k.Token.PublicKey()} {
			if got, err := access.KeyHash(public); err == nil && got == hash {
				return k, true
			}
		}
	}
	return useraccess.Keys{}, false
}

// stored is a key as it is encrypted.
type stored struct {
	Certificate []byte `json:"certificate"`
	Token       []byte `json:"token"`
}

func secretOf(c *v1alpha1.LogicalCloud, user string) *corev1.Secret {
	sum := sha256.Sum256([]byte(user))
	id := muster.CloudID(c.Namespace, c.Name)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: muster.AccessKeyNamespace, Name: id + "-" + hex.EncodeToString(sum[:8]),
			Labels:      map[string]string{muster.LogicalCloudLabel: id},
			Annotations: map[string]string{muster.LogicalCloudAnnotation: c.Namespace + "/" + c.Name, muster.UserAnnotation: user},
		},
		Type: secretType,
	}
}

// bound is what encrypted keys are good for: this user of this cloud, and not one
// of the same name.
func bound(c *v1alpha1.LogicalCloud, user string) []byte {
	return []byte(string(c.UID) + "\x00" + user)
}

// Get reads the keys of a user; none if the hub has made none, or can't decrypt
// them, as after a loss of its own keys.
func (v *Vault) Get(ctx context.Context, c *v1alpha1.LogicalCloud, user string) (Ring, error) {
	secret := secretOf(c, user)
	err := v.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the access key of user %q: %w", user, err)
	}
	ring, err := v.open(secret.Data[sealedData], bound(c, user))
	if err != nil {
		return nil, nil //nolint:nilerr // a new key is made in its place
	}
	return ring, nil
}

// Add makes a key for a user, in front of those that there are.
func (v *Vault) Add(ctx context.Context, c *v1alpha1.LogicalCloud, user string, have Ring) (Ring, error) {
	keys, err := useraccess.NewKeys()
	if err != nil {
		return nil, err
	}
	ring := append(Ring{keys}, have...)
	ring = ring[:min(len(ring), keptKeys)]
	sealed, err := v.seal(ring, bound(c, user))
	if err != nil {
		return nil, err
	}
	secret := secretOf(c, user)
	secret.Data = map[string][]byte{sealedData: sealed}
	err = v.client.Create(ctx, secret)
	if apierrors.IsNotFound(err) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: muster.AccessKeyNamespace}}
		if err := v.client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create the namespace %s: %w", ns.Name, err)
		}
		err = v.client.Create(ctx, secret)
	}
	if apierrors.IsAlreadyExists(err) {
		err = v.client.Update(ctx, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("store the access key of user %q: %w", user, err)
	}
	return ring, nil
}

// Keep removes the keys of all users of a cloud but these.
func (v *Vault) Keep(ctx context.Context, c *v1alpha1.LogicalCloud, users []string) error {
	list := &corev1.SecretList{}
	of := client.MatchingLabels{muster.LogicalCloudLabel: muster.CloudID(c.Namespace, c.Name)}
	if err := v.client.List(ctx, list, client.InNamespace(muster.AccessKeyNamespace), of); err != nil {
		return fmt.Errorf("list the access keys: %w", err)
	}
	kept := map[string]bool{}
	for _, user := range users {
		kept[secretOf(c, user).Name] = true
	}
	for i := range list.Items {
		if s := &list.Items[i]; !kept[s.Name] {
			if err := v.client.Delete(ctx, s); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete the access key %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

func (v *Vault) seal(ring Ring, context []byte) ([]byte, error) {
	var all []stored
	for _, k := range ring {
		certificate, err := k.KeyPEM()
		if err != nil {
			return nil, err
		}
		all = append(all, stored{Certificate: certificate, Token: k.Token.Bytes()})
	}
	plain, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, v.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return v.aead.Seal(nonce, nonce, plain, context), nil
}

func (v *Vault) open(sealed, context []byte) (Ring, error) {
	n := v.aead.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("there is nothing in it")
	}
	plain, err := v.aead.Open(nil, sealed[:n], sealed[n:], context)
	if err != nil {
		return nil, err
	}
	var all []stored
	if err := json.Unmarshal(plain, &all); err != nil {
		return nil, err
	}
	var ring Ring
	for _, s := range all {
		certificate, err := useraccess.ParseKey(s.Certificate)
		if err != nil {
			return nil, err
		}
		token, err := ecdh.X25519().NewPrivateKey(s.Token)
		if err != nil {
			return nil, err
		}
		ring = append(ring, useraccess.Keys{Certificate: certificate, Token: token})
	}
	return ring, nil
}
