// Package logging sets up the one log of a program: its own lines, those of
// the Kubernetes code inside it, and those of controller-runtime, in one
// format and with one verbosity.
package logging

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

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
		return fmt.Errorf("-v %d is no level of logging: use 0 to %d; above, the bodies of requests would be logged, with the secrets in them", verbosity, MaxVerbosity)
	}
	return nil
}

// Setup makes slog's default logger write to w, as JSON or as text, and
// returns a logger of the same kind for libraries that want a logr.Logger.
//
// At verbosity 0 the log holds what the program itself says and the errors of
// the code inside it. From 1 on it holds what Kubernetes calls information and
// warnings, and more with each number, up to MaxVerbosity; a greater one counts
// as that.
func Setup(w io.Writer, verbosity int, json bool) logr.Logger {
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
	slog.SetDefault(slog.New(handler))

	library := Library(slog.Default())
	klog.SetLoggerWithOptions(library, klog.ContextualLogger(true))
	ctrllog.SetLogger(library)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(verbosity)) // a number is always accepted
	return library
}

// Library returns log for libraries that want a logr.Logger. What they call
// information is written from verbosity 1 on.
func Library(log *slog.Logger) logr.Logger {
	return logr.FromSlogHandler(libraryHandler{log.Handler()})
}

// NewContext returns a context that makes libraries write to log, with its
// attributes, what they log in calls with that context.
func NewContext(ctx context.Context, log *slog.Logger) context.Context {
	return logr.NewContext(ctx, Library(log))
}

// levelName writes the levels below debug, which slog calls "DEBUG+3" or
// "INFO-1", as debug.
func levelName(_ []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && level < slog.LevelInfo {
		a.Value = slog.StringValue("DEBUG")
	}
	return a
}

// libraryHandler takes what libraries log one level down: what is information
// for the developers of Kubernetes is noise to the users of this program.
type libraryHandler struct{ next slog.Handler }

func (h libraryHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, demote(level))
}

func (h libraryHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demote(r.Level)
	if r.Level >= slog.LevelError && isExpected(r) {
		r.Level = slog.Level(-1)
		if !h.next.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.next.Handle(ctx, r)
}

func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.next.WithAttrs(attrs)}
}

func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.next.WithGroup(name)}
}

func demote(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return level
	}
	return min(level, 0) - 1
}

// expected are pieces of errors that Kubernetes logs in the course of a normal
// start or stop, and that would only worry a reader.
var expected = []string{
	// No file of that kind is ever given.
	"The manifest file is empty, ignoring",
	// The namespaces are made at the same time as what lives in them; both are
	// tried again a moment later.
	`namespaces "kube-system" not found`,
	`namespaces "kube-node-lease" not found`,
	`namespaces "kube-public" not found`,
	`namespaces "default" not found`,
	// Nothing removes the API server's own endpoint at a stop, as there is
	// nothing behind it.
	"Found stale data, removed previous endpoints on kubernetes service",
	// The first start gives the API server's own service its address.
	"is not allocated; repairing",
	// A stop ends requests that are under way.
	"context canceled",
	"http: Server closed",
	"server is shutting down",
	"Unable to sync caches",
	"failed to get informer from cache",
	"Unable start event watcher",
	"Unable to remove peer endpoint leases",
	"io: read/write on closed pipe",
	"http: Handler timeout",
	"Post-timeout activity",
	"post-timeout activity",
	"timed out waiting for dependency graph builder sync",
	"Timeout or abort while handling",
	// Controllers that are ahead of their caches try again.
	"is not as new as written version",
	"the object has been modified; please apply your changes to the latest version",
}

func isExpected(r slog.Record) bool {
	found := containsExpected(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		found = found || containsExpected(a.Value.String())
		return !found
	})
	return found
}

func containsExpected(s string) bool {
	for _, e := range expected {
		if strings.Contains(s, e) {
			return true
		}
	}
	return false
}
