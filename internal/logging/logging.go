// Package logging sets up the one log of a program: its own lines, those of
// the Kubernetes code inside it, and those of controller-runtime, in one
// format and with one verbosity. A command calls Setup and hands the logger on.
package logging

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// MaxVerbosity is the greatest verbosity. From 8 on the libraries would log the
// bodies of requests and responses, with the Secrets and tokens in them.
const MaxVerbosity = 6

// CheckVerbosity says why a verbosity that a user asks for is none.
func CheckVerbosity(verbosity int) error {
	if verbosity < 0 || verbosity > MaxVerbosity {
		return fmt.Errorf("-v %d is not a level of logging: use 0 to %d; above, the bodies of requests would be logged, with the secrets in them",
			verbosity, MaxVerbosity)
	}
	return nil
}

// Setup returns the program's logger, which writes to w, as JSON or as text, and
// makes it the one of all code that has no logger of its own: slog's default,
// klog's and controller-runtime's. ctx is the program's: once it ends the program
// stops, and what libraries complain about then is expected.
//
// At verbosity 0 the log holds what the program itself says and the errors of
// the code inside it. From 1 on it holds what Kubernetes calls information and
// warnings, and more with each number, up to MaxVerbosity; a greater one counts
// as that.
func Setup(ctx context.Context, w io.Writer, verbosity int, json bool) *slog.Logger {
	verbosity = min(verbosity, MaxVerbosity)
	level := slog.LevelInfo
	if verbosity > 0 {
		level = slog.Level(-verbosity)
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: levelName}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if json {
		handler = slog.NewJSONHandler(w, options)
	}
	log := slog.New(programHandler{handler, ctx.Done()})
	slog.SetDefault(log)

	library := Library(log)
	klog.SetLoggerWithOptions(library, klog.ContextualLogger(true))
	ctrllog.SetLogger(library)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(verbosity)) // a number is always accepted
	return log
}

// Library returns log for libraries that want a logr.Logger. What they call
// information is written from verbosity 1 on.
func Library(log *slog.Logger) logr.Logger {
	h := libraryHandler{next: log.Handler()}
	if program, ok := h.next.(programHandler); ok {
		h.stopping = program.stopping
	}
	return logr.FromSlogHandler(h)
}

// contextKey is where a context has the program's logger.
type contextKey struct{}

// NewContext returns a context that makes libraries, and what logs by FromContext,
// write to log, with its attributes.
func NewContext(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(logr.NewContext(ctx, Library(log)), contextKey{}, log)
}

// FromContext returns the logger that NewContext has put into ctx; that of the program
// where there is none.
func FromContext(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(contextKey{}).(*slog.Logger); ok {
		return log
	}
	return slog.Default()
}

// levelName writes the levels below debug, which slog calls "DEBUG+3" or
// "INFO-1", as debug.
func levelName(_ []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && level < slog.LevelInfo {
		a.Value = slog.StringValue("DEBUG")
	}
	return a
}
