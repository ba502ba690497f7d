package etcd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// What a member says hundreds of times in each start worries nobody.
func TestAStartIsNoWarning(t *testing.T) {
	var out bytes.Buffer
	log := zap.New(slogCore{log: slog.New(slog.NewTextHandler(&out, nil)), failures: newFailures()})
	log.Warn("failed to publish local member to cluster through raft")
	if out.Len() > 0 {
		t.Errorf("logged %s", &out)
	}
	log.Warn("slow fdatasync")
	if !strings.Contains(out.String(), "slow fdatasync") {
		t.Errorf("a warning was left out: %q", &out)
	}
}
