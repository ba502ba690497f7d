// Package lifeline ends a process together with the one that started it, also
// when that is killed and can't clean up. The child's standard input is a pipe
// that nobody writes to: it ends when the parent does.
package lifeline

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// env is the variable by which the child knows of its lifeline. Its value is the
// folder that the child removes when the parent has gone without stopping it.
const env = "MUSTER_LIFELINE"

// Attach ties a command that is about to be started to this process. folder is what
// the child removes when this process has gone; "" is nothing.
func Attach(cmd *exec.Cmd, folder string) error {
	if _, err := cmd.StdinPipe(); err != nil { // closed when the command is waited for
		return fmt.Errorf("tie %s to this process: %w", cmd.Path, err)
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, env+"="+folder)
	return nil
}

// Follow returns a context that ends when the parent is gone, if the parent has
// tied this process to itself. remove is for the end of the process: it removes the
// parent's folder if the parent is gone.
func Follow(ctx context.Context) (_ context.Context, remove func() error) {
	folder, tied := os.LookupEnv(env)
	if !tied {
		return ctx, func() error { return nil }
	}
	_ = os.Unsetenv(env) // it is not for the child's own children
	// The child's output may go to the parent. What it says after the parent's end must not
	// end it before it has cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	return follow(ctx, os.Stdin, folder)
}

func follow(ctx context.Context, line io.Reader, folder string) (context.Context, func() error) {
	ctx, end := context.WithCancel(ctx)
	var gone atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, line)
		gone.Store(true)
		end()
	}()
	return ctx, func() error {
		if !gone.Load() || folder == "" {
			return nil
		}
		return os.RemoveAll(folder)
	}
}
