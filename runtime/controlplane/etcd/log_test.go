package etcd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// What a member says hundreds of times in each start worries nobody.
func TestAStartIsNoWarning(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(slog.New(slog.NewTextHandler(&out, nil)), newFailures())
	log.Warn("failed to publish local member to cluster through raft")
	if out.Len() > 0 {
		t.Errorf("logged %s", &out)
	}
	log.Warn("slow fdatasync")
	if !strings.Contains(out.String(), "slow fdatasync") {
		t.Errorf("a warning was left out: %q", &out)
	}
}

// A member with much to do says of each request that it was slow.
func TestRepeatedWarningsAreLimited(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(slog.New(slog.NewTextHandler(&out, nil)), newFailures())
	for range 1000 {
		log.Warn("apply request took too long")
	}
	log.Warn("slow fdatasync")
	if n := strings.Count(out.String(), "too long"); n < logging.MostRepeats || n > 2*logging.MostRepeats {
		t.Errorf("%d of 1000 warnings are written, want %d, or up to twice that", n, logging.MostRepeats)
	}
	if !strings.Contains(out.String(), "slow fdatasync") {
		t.Error("another warning was left out")
	}
}

// A member that starts applies what its log has, drops most of it from memory, and may be
// about to elect itself before it has noted that it was applied.
func TestAnElectionAmidTheStartGoesOn(t *testing.T) {
	f := newFailures()
	log := newLogger(slog.New(slog.DiscardHandler), f)
	storage := raft.NewMemoryStorage()
	var entries []*raftpb.Entry
	for i := range uint64(105) {
		entries = append(entries, &raftpb.Entry{Term: new(uint64(1)), Index: new(i + 1)})
	}
	entries[0].Type = raftpb.EntryConfChange.Enum()
	testkit.Must(t, storage.Append(entries))
	testkit.Must(t, storage.SetHardState(&raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(104))}))
	node, err := raft.NewRawNode(&raft.Config{
		ID: 1, ElectionTick: 10, HeartbeatTick: 1, Storage: storage, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 1,
		Logger: etcdserver.NewRaftLoggerZap(log),
	})
	testkit.Must(t, err)
	node.ApplyConfChange(&raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(1))})
	ready := node.Ready()
	if len(ready.CommittedEntries) != 104 {
		t.Fatalf("%d entries to apply, want 104", len(ready.CommittedEntries))
	}
	testkit.Must(t, storage.Compact(88))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := node.Campaign(); err != nil {
			t.Error(err)
		}
	}()
	<-ended
	for node.Advance(ready); node.HasReady(); node.Advance(ready) {
		ready = node.Ready()
		testkit.Must(t, storage.Append(ready.Entries))
	}
	if state := node.BasicStatus().RaftState; f.failed() || state != raft.StateLeader {
		t.Errorf("the member is %v (%v), want that it leads", state, f.err)
	}
}
