package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/waitgroup"
)

// Client returns a client that calls the member instead of sending it requests: nothing is
// encoded, and there is no connection with its buffers and goroutines. What it returns may be
// the member's own memory, which nobody may change. It reads, writes, watches and grants
// leases, and does nothing else.
//
// Stop waits for its requests and ends its watches, as etcd does with those that come over a
// connection: what they read is closed then.
func (s *Server) Client() *clientv3.Client {
	c := clientv3.NewCtxClient(context.Background(), clientv3.WithZapLogger(zap.NewNop()))
	member := s.member.Server
	kv := adapter.KvServerToKvClient(directKV{v3rpc.NewQuotaKVServer(member), &s.calls})
	c.KV = clientv3.NewKVFromKVClient(kv, c)
	watches := adapter.WatchServerToWatchClient(directWatches{v3rpc.NewWatchServer(member), &s.calls})
	c.Watcher = clientv3.NewWatchFromWatchClient(watches, c)
	leases := adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(member))
	c.Lease = clientv3.NewLeaseFromLeaseClient(leases, c, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c
}

// endCalls ends the watches of all clients and returns when no call reads from the member.
func (s *Server) endCalls() {
	s.mu.Lock()
	clients := s.clients
	s.clients = nil
	s.mu.Unlock()
	for _, c := range clients {
		_ = c.Close()
	}
	s.calls.Wait()
}

// during makes a call, unless the member is about to stop.
func during[Q, A any](
	ctx context.Context, calls *waitgroup.SafeWaitGroup, q Q, call func(context.Context, Q) (A, error),
) (a A, err error) {
	if calls.Add(1) != nil {
		return a, rpctypes.ErrGRPCStopped
	}
	defer calls.Done()
	return call(ctx, q)
}

// directKV counts the calls of a member's reads and writes.
type directKV struct {
	pb.KVServer
	calls *waitgroup.SafeWaitGroup
}

func (d directKV) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return during(ctx, d.calls, r, d.KVServer.Range)
}

func (d directKV) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	return during(ctx, d.calls, r, d.KVServer.Put)
}

func (d directKV) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return during(ctx, d.calls, r, d.KVServer.DeleteRange)
}

func (d directKV) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return during(ctx, d.calls, r, d.KVServer.Txn)
}

func (d directKV) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return during(ctx, d.calls, r, d.KVServer.Compact)
}

// directWatches counts the streams of a member's watches.
type directWatches struct {
	pb.WatchServer
	calls *waitgroup.SafeWaitGroup
}

func (d directWatches) Watch(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	if d.calls.Add(1) != nil {
		return rpctypes.ErrGRPCStopped
	}
	defer d.calls.Done()
	return d.WatchServer.Watch(stream)
}
