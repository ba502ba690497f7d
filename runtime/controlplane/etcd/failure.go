package etcd

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"

	"go.uber.org/zap/zapcore"
)

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
	f.once.Do(func() {
		f.err = &FailedError{What: line.Message, Cause: cause(fields)}
		close(f.first)
	})
	runtime.Goexit()
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
