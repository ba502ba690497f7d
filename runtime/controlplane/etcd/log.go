package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"go.etcd.io/raft/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
)

// expected are warnings and errors that etcd logs in the course of a normal
// life here, and that would only worry a reader.
var expected = map[string]bool{
	// There is one socket, for this process alone.
	"Running http and grpc server on single port. This is not recommended for production.": true,
	// Nobody logs in to this etcd.
	"simple token is not cryptographically signed": true,
	// A new store has no version yet; it gets one a moment later.
	"Failed to detect schema version":  true,
	"failed to update storage version": true,
	// Until it has applied what its log has, which is the start itself: it asks again
	// without a pause.
	"failed to publish local member to cluster through raft": true,
	// Stop closes the listener under the server's feet. A listener that fails
	// at the start is reported by Start.
	"setting up serving from embedded etcd failed.": true,
	"stopping insecure grpc server due to error":    true,
	"stopped insecure grpc server due to error":     true,
}

// failing begin the lines in which the database reports a write that failed.
// The line with which the member then gives up becomes the program's error.
var failing = []string{"writeAt failed", "writing data failed", "writing meta failed", "Committing transaction failed"}

// newLogger returns the logger of a member. Of lines with the same message a few at a time
// are written: on a busy machine each request is one that took too long.
func newLogger(log *slog.Logger, f *failures) *zap.Logger {
	all := slogCore{log: log, failures: f}
	some := zapcore.NewSamplerWithOptions(all, logging.RepeatsWindow, logging.MostRepeats, 0)
	return zap.New(some, zap.WithFatalHook(f), zap.WithPanicHook(f))
}

// slogCore hands etcd's log lines to the program's logger. etcd warns of slow
// requests and disks at level warn; what it says at level info is for those
// who asked for more. After a failure all that follows from it is for those, too.
type slogCore struct {
	log      *slog.Logger
	fields   []zapcore.Field
	failures *failures
}

// Enabled leaves out what etcd says for its own developers: whole requests are
// among it, with the Secrets that they write.
func (c slogCore) Enabled(level zapcore.Level) bool {
	return level > zapcore.DebugLevel && c.log.Enabled(context.Background(), slogLevel(level))
}

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{log: c.log, fields: slices.Concat(c.fields, fields), failures: c.failures}
}

func (c slogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c slogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields, fields...) {
		f.AddTo(enc)
	}
	args := make([]any, 0, 2*len(enc.Fields)+2)
	args = append(args, "component", "etcd")
	for k, v := range enc.Fields {
		args = append(args, k, v)
	}
	level := slogLevel(entry.Level)
	fatal := entry.Level > zapcore.ErrorLevel // it becomes the error that the program ends with
	if expected[entry.Message] || fatal || c.failures.failed() || slices.ContainsFunc(failing, func(s string) bool { return strings.HasPrefix(entry.Message, s) }) {
		level = slog.LevelDebug
	}
	c.log.Log(context.Background(), level, entry.Message, args...)
	return nil
}

func (c slogCore) Sync() error { return nil }

func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// FailedError is why a member gave up: what it wanted to do, and why it could
// not.
type FailedError struct {
	What  string
	Cause error
}

func (e *FailedError) Error() string {
	if e.Cause == nil {
		return e.What
	}
	return fmt.Sprintf("%s: %v", e.What, e.Cause)
}

func (e *FailedError) Unwrap() error { return e.Cause }

// full reports whether the disk had no room.
func (e *FailedError) full() bool {
	return errors.Is(e, syscall.ENOSPC) || errors.Is(e, syscall.EDQUOT) || errors.Is(e, syscall.EFBIG)
}

// failures remembers the first reason for which a member gave up. etcd would end
// the whole process at such a moment, in the midst of whatever else it does, or
// panic in a goroutine of its own; here the goroutine ends, and who runs the
// member ends it.
type failures struct {
	once  sync.Once
	first chan struct{} // closed once err is set
	err   error
}

func newFailures() *failures { return &failures{first: make(chan struct{})} }

// OnWrite takes the place of what a logger does after a line that is fatal.
func (f *failures) OnWrite(line *zapcore.CheckedEntry, fields []zapcore.Field) {
	if appliedMeanwhile(line.Message) {
		return
	}
	f.once.Do(func() {
		f.err = &FailedError{What: line.Message, Cause: cause(fields)}
		close(f.first)
	})
	runtime.Goexit()
}

// appliedMeanwhile reports whether a line is about a race in the start of a member, which
// then goes on. Before an election, the member looks for changes of the membership among
// the entries of its log that are not marked as applied yet. Entries that were applied a
// moment ago may be gone from memory by then, as few are kept (catchUpEntries). A cluster
// of one has no such change but the first entry, which is among those that were applied.
func appliedMeanwhile(message string) bool {
	return strings.HasPrefix(message, "error scanning unapplied entries [") &&
		strings.HasSuffix(message, raft.ErrCompacted.Error())
}

func (f *failures) failed() bool {
	select {
	case <-f.first:
		return true
	default:
		return false
	}
}

// cause is the error that a line is about.
func cause(fields []zapcore.Field) error {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			return err
		}
	}
	return nil
}
