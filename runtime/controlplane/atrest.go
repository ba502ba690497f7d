package controlplane

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
)

const (
	// sealedPrefix begins each value that is encrypted. No other value begins so: one is
	// JSON or protobuf.
	sealedPrefix = "muster:aes-gcm:1:"
	// sealingKey says where a store has noted what it keeps encrypted.
	sealingKey = "/muster/encrypted"
	// sealPage is how many objects are read at a time to encrypt or decrypt them.
	sealPage = 100
)

// ErrOtherSealingKey says that a store was encrypted with another service-account key.
var ErrOtherSealingKey = errors.New("what the store has encrypted was encrypted with another service-account key")

// sealing encrypts what a store keeps of some resources: with AES-256-GCM under a key of its
// own for each value, from one that HKDF (RFC 5869) makes of the service-account key. A value
// can't be put in the place of another one. What is not encrypted is read, too.
type sealing struct {
	aead      value.Transformer
	key       string // identifies the key without giving it away
	resources []schema.GroupResource
}

func newSealing(serviceAccountKey []byte, resources []schema.GroupResource) (*sealing, error) {
	derive := func(purpose string) ([]byte, error) { return hkdf.Key(sha256.New, serviceAccountKey, nil, purpose, 32) }
	seed, err := derive("muster encryption at rest")
	if err != nil {
		return nil, err
	}
	id, err := derive("muster encryption at rest: name of the key")
	if err != nil {
		return nil, err
	}
	aead, err := aes.NewHKDFExtendedNonceGCMTransformer(seed)
	if err != nil {
		return nil, err
	}
	return &sealing{aead, hex.EncodeToString(id[:8]), resources}, nil
}

// of is how the values of a resource are stored and read.
func (s *sealing) of(resource schema.GroupResource) value.Transformer {
	return sealedTransformer{s.aead, slices.Contains(s.resources, resource)}
}

// read is what a value was before it was encrypted, or the value itself where that can't be
// found out.
func (s *sealing) read(ctx context.Context, key string, stored []byte) []byte {
	if s == nil {
		return stored
	}
	plain, _, err := sealedTransformer{aead: s.aead}.TransformFromStorage(ctx, stored, value.DefaultContext(key))
	if err != nil {
		return stored
	}
	return plain
}

// sealedTransformer implements value.Transformer.
type sealedTransformer struct {
	aead   value.Transformer
	writes bool // and not only reads what is encrypted
}

func (t sealedTransformer) TransformFromStorage(
	ctx context.Context,
	data []byte,
	at value.Context,
) ([]byte, bool, error) {
	sealed, ok := bytes.CutPrefix(data, []byte(sealedPrefix))
	if !ok {
		plain, _, err := identity.NewEncryptCheckTransformer().TransformFromStorage(ctx, data, at)
		return plain, t.writes, err
	}
	plain, _, err := t.aead.TransformFromStorage(ctx, sealed, at)
	return plain, !t.writes, err
}

func (t sealedTransformer) TransformToStorage(ctx context.Context, data []byte, at value.Context) ([]byte, error) {
	if !t.writes {
		return data, nil
	}
	sealed, err := t.aead.TransformToStorage(ctx, data, at)
	return append([]byte(sealedPrefix), sealed...), err
}

// sealedGetter has what another getter describes be encrypted.
type sealedGetter struct {
	generic.RESTOptionsGetter
	sealing *sealing
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g sealedGetter) GetRESTOptions(
	resource schema.GroupResource,
	example runtime.Object,
) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || g.sealing == nil {
		return o, err
	}
	config := *o.StorageConfig
	config.Transformer = g.sealing.of(resource)
	o.StorageConfig = &config
	return o, nil
}

// sealed is what a store has noted: the key that it is encrypted with, and the resources
// that are encrypted as a whole.
type sealed struct {
	Key       string   `json:"key"`
	Resources []string `json:"resources"`
}

// settle encrypts what the store keeps of the resources that are to be encrypted, and
// decrypts what it keeps of those that no longer are. With discard it deletes what was
// encrypted with a key that is lost. shared says that other replicas may have written
// otherwise, so that what was done before is looked at again.
func (s *sealing) settle(ctx context.Context, store *storeClient, shared, discard bool) error {
	var noted sealed
	first, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	answer, err := store.Get(first, sealingKey)
	if err != nil {
		return err
	}
	if len(answer.Kvs) > 0 {
		if err := json.Unmarshal(answer.Kvs[0].Value, &noted); err != nil {
			return fmt.Errorf("read %s in etcd: %w", sealingKey, err)
		}
	}
	lost := noted.Key != "" && noted.Key != s.key
	if lost && !discard {
		return ErrOtherSealingKey
	}
	wanted := sealed{Key: s.key}
	for _, r := range s.resources {
		wanted.Resources = append(wanted.Resources, r.String())
	}
	slices.Sort(wanted.Resources)
	if !lost && !shared && noted.Key == wanted.Key && slices.Equal(noted.Resources, wanted.Resources) {
		return nil
	}
	// The key is noted before anything is encrypted with it.
	doing := sealed{Key: s.key, Resources: noted.Resources}
	if err := s.note(ctx, store, noted, doing); err != nil {
		return err
	}
	changed := 0
	all := slices.Concat(noted.Resources, wanted.Resources)
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		n, err := s.rewrite(ctx, store, schema.ParseGroupResource(name), lost)
		if err != nil {
			return fmt.Errorf("encrypt or decrypt the stored %s: %w", name, err)
		}
		changed += n
	}
	if changed > 0 {
		logging.FromContext(ctx).Info("what the store keeps has been encrypted anew",
			"encrypted", strings.Join(wanted.Resources, ","), "objects", changed)
		if err := store.forget(ctx, !shared); err != nil {
			return err
		}
	}
	return s.note(ctx, store, doing, wanted)
}

// note stores what the store has encrypted.
func (s *sealing) note(ctx context.Context, store *storeClient, before, now sealed) error {
	if before.Key == now.Key && slices.Equal(before.Resources, now.Resources) {
		return nil
	}
	text, err := json.Marshal(now)
	if err == nil {
		_, err = store.Put(ctx, sealingKey, string(text))
	}
	return err
}

// rewrite stores the objects of a resource as they are to be stored, and returns how many
// were stored otherwise.
func (s *sealing) rewrite(
	ctx context.Context,
	store *storeClient,
	resource schema.GroupResource,
	discard bool,
) (int, error) {
	prefix := "/registry/" + resource.Resource + "/"
	if resource.Group != "" {
		prefix = "/registry/" + resource.Group + "/" + resource.Resource + "/"
	}
	as, changed := s.of(resource), 0
	next, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		page, err := store.Get(ctx, next, clientv3.WithRange(end), clientv3.WithLimit(sealPage))
		if err != nil {
			return changed, err
		}
		for _, kv := range page.Kvs {
			at := value.DefaultContext(kv.Key)
			plain, stale, err := as.TransformFromStorage(ctx, kv.Value, at)
			var write clientv3.Op
			switch {
			case err != nil && discard:
				logging.FromContext(ctx).
					Warn("deleting what was encrypted with a key that is lost", "key", string(kv.Key))
				write = clientv3.OpDelete(string(kv.Key))
			case err != nil:
				return changed, fmt.Errorf("%s: %w", kv.Key, err)
			case !stale:
				continue
			default:
				stored, err := as.TransformToStorage(ctx, plain, at)
				if err != nil {
					return changed, err
				}
				write = clientv3.OpPut(string(kv.Key), string(stored), clientv3.WithLease(clientv3.LeaseID(kv.Lease)))
			}
			// What another replica has written meanwhile stays as that wrote it.
			_, err = store.Txn(ctx).
				If(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)).Then(write).Commit()
			if err != nil {
				return changed, err
			}
			changed++
		}
		if !page.More || len(page.Kvs) == 0 {
			return changed, nil
		}
		next = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// forget removes earlier versions of objects from the store, and with alone from its file.
func (s *storeClient) forget(ctx context.Context, alone bool) error {
	now, err := s.Get(ctx, sealingKey)
	if err != nil {
		return err
	}
	if _, err := s.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil || !alone {
		return err
	}
	for _, endpoint := range s.Endpoints() {
		if _, err := s.Defragment(ctx, endpoint); err != nil {
			return fmt.Errorf("defragment etcd at %s: %w", endpoint, err)
		}
	}
	return nil
}
