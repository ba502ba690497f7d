package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

const (
	// defaultQuota is etcd's own, for members of a version that does not say theirs.
	defaultQuota = 2 << 30
	// pageBytes is how much Kept reads at a time, going by what it has read, in at
	// least leastPage and at most mostPage objects.
	pageBytes           = 2 << 20
	leastPage, mostPage = 4, 500
	storeTimeout        = 20 * time.Second
)

// storeClient asks etcd, an embedded one as an external one.
type storeClient struct {
	*clientv3.Client
	sealing *sealing // nil where nothing is encrypted
}

func newStoreClient(o Options, endpoints []string) (*storeClient, error) {
	config := clientv3.Config{Endpoints: endpoints, DialTimeout: storeTimeout, Logger: zap.NewNop()}
	if o.EtcdCAFile != "" || o.EtcdCertFile != "" {
		var err error
		if config.TLS, err = o.etcdTLS(); err != nil {
			return nil, err
		}
	}
	c, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of etcd: %w", err)
	}
	return &storeClient{Client: c}, nil
}

// explainSilence says what to look at when an external etcd has not answered.
func (o *Options) explainSilence(err error) error {
	if len(o.EtcdServers) == 0 || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no answer from etcd at %s: look whether it runs, and whether --etcd-cafile, --etcd-certfile "+
		"and --etcd-keyfile are what it takes: %w", strings.Join(o.EtcdServers, ","), err)
}

// etcdTLS is how clients and an external etcd know each other.
func (o *Options) etcdTLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.EtcdCAFile != "" {
		content, err := os.ReadFile(o.EtcdCAFile)
		if err != nil {
			return nil, fmt.Errorf("read --etcd-cafile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("--etcd-cafile %q has no certificate: give the PEM file of the authority that etcd's certificate is from", o.EtcdCAFile)
		}
	}
	if o.EtcdCertFile != "" {
		// For each connection, as the files are replaced before the certificate expires.
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.EtcdCertFile, o.EtcdKeyFile)
			if err != nil {
				return nil, fmt.Errorf("read --etcd-certfile and --etcd-keyfile: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}

// Size implements Store: of several members, the fullest counts.
func (s *storeClient) Size(ctx context.Context) (extension.StoreSize, error) {
	var fullest extension.StoreSize
	var errs []error
	for _, endpoint := range s.Endpoints() {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		status, err := s.Status(ctx, endpoint)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("ask etcd at %s for its size: %w", endpoint, err))
			continue
		}
		size := extension.StoreSize{InUse: status.DbSizeInUse, File: status.DbSize, Quota: status.DbSizeQuota}
		if size.Quota <= 0 {
			size.Quota = defaultQuota
		}
		if fullest.Quota == 0 || float64(size.InUse)/float64(size.Quota) > float64(fullest.InUse)/float64(fullest.Quota) {
			fullest = size
		}
	}
	if fullest.Quota == 0 {
		return fullest, errors.Join(errs...)
	}
	return fullest, nil
}

// Kept implements Store.
func (s *storeClient) Kept(ctx context.Context, prefix string) (extension.Kept, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var k extension.Kept
	next, end, page := prefix, clientv3.GetPrefixRangeEnd(prefix), int64(leastPage)
	for {
		answer, err := s.Get(ctx, next, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithSerializable())
		if err != nil {
			return k, fmt.Errorf("count what is kept below %s: %w", prefix, err)
		}
		for _, kv := range answer.Kvs {
			stored := s.sealing.read(ctx, string(kv.Key), kv.Value)
			k.Objects++
			k.Bytes += int64(len(stored))
			k.SpecBytes += specBytes(stored)
		}
		if !answer.More || len(answer.Kvs) == 0 {
			return k, nil
		}
		next = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
		page = min(mostPage, max(leastPage, pageBytes/max(1, k.Bytes/int64(k.Objects))))
	}
}

// replicaKeys is where replicas share their keys, sealed.
const replicaKeys = "/muster/replica-keys"

// sharedKeys implements pki.Shared.
type sharedKeys struct{ *storeClient }

// Empty implements pki.Shared.
func (s sharedKeys) Empty(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	answer, err := s.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return false, err
	}
	return len(answer.Kvs) == 0, nil
}

// Read implements pki.Shared.
func (s sharedKeys) Read(ctx context.Context) (value []byte, version int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	answer, err := s.Get(ctx, replicaKeys)
	if err != nil || len(answer.Kvs) == 0 {
		return nil, 0, err
	}
	return answer.Kvs[0].Value, answer.Kvs[0].ModRevision, nil
}

// Write implements pki.Shared.
func (s sharedKeys) Write(ctx context.Context, value []byte, version int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	answer, err := s.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(replicaKeys), "=", version)).
		Then(clientv3.OpPut(replicaKeys, string(value))).
		Commit()
	if err != nil {
		return false, err
	}
	return answer.Succeeded, nil
}

// specBytes is how much of a stored custom resource is its spec.
func specBytes(stored []byte) int64 {
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	if json.Unmarshal(stored, &object) != nil {
		return 0 // a built-in kind, which is not stored as JSON
	}
	return int64(len(object.Spec))
}

const (
	// reclaimEvery is how often the file of an embedded store is looked at.
	reclaimEvery = 10 * time.Minute
	// reclaimPart is the part of the quota above which the file is made smaller, when
	// less than half of it is in use: the quota is for the file, which never gets smaller
	// by itself.
	reclaimPart = 0.5
)

// keepRoom gives room that was freed in an embedded store back to its quota, until ctx
// ends.
func (s *storeClient) keepRoom(ctx context.Context) {
	for {
		if err := s.reclaim(ctx, reclaimPart); err != nil && ctx.Err() == nil {
			logging.FromContext(ctx).Warn("the store's file can't be made smaller", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reclaimEvery):
		}
	}
}

// reclaim makes the file smaller when it takes more than a part of the quota and most of
// it is free. The store answers nobody meanwhile, some seconds for each GiB in use. Then
// it takes writes again, if it took none because its quota was used up.
func (s *storeClient) reclaim(ctx context.Context, part float64) error {
	before, err := s.Size(ctx)
	if err != nil {
		return err
	}
	if float64(before.File) <= part*float64(before.Quota) || before.InUse > before.File/2 {
		return nil
	}
	for _, endpoint := range s.Endpoints() {
		if _, err := s.Defragment(ctx, endpoint); err != nil {
			return fmt.Errorf("defragment etcd at %s: %w", endpoint, err)
		}
	}
	if _, err := s.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("let etcd take writes again: %w", err)
	}
	after, err := s.Size(ctx)
	if err != nil {
		return err
	}
	logging.FromContext(ctx).Info("the store's file was made smaller",
		"beforeMiB", before.File>>20, "afterMiB", after.File>>20, "quotaMiB", after.Quota>>20)
	return nil
}
