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
	"strings"
	"sync"
	"time"

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
// the code inside it, of each message a few at a time. From 1 on it holds what
// Kubernetes calls information and warnings, and more with each number, up to
// MaxVerbosity; a greater one counts as that.
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
	log := slog.New(programHandler{handler, ctx.Done(), &repeats{}})
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
	h := libraryHandler{next: log.Handler(), repeats: &repeats{}}
	if program, ok := h.next.(programHandler); ok {
		h.stopping, h.repeats = program.stopping, program.repeats
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

// programHandler is the handler of the program's logger. It is there for Library
// to learn when the program stops, and which errors have been written.
type programHandler struct {
	slog.Handler
	stopping <-chan struct{}
	repeats  *repeats
}

func (h programHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return programHandler{h.Handler.WithAttrs(attrs), h.stopping, h.repeats}
}

func (h programHandler) WithGroup(name string) slog.Handler {
	return programHandler{h.Handler.WithGroup(name), h.stopping, h.repeats}
}

// libraryHandler takes what libraries log one level down: what is information
// for the developers of Kubernetes is noise to the users of this program.
type libraryHandler struct {
	next slog.Handler
	// stopping is closed when the program stops; nil if that is not known.
	stopping <-chan struct{}
	repeats  *repeats
}

func (h libraryHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, demote(level))
}

func (h libraryHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demote(r.Level)
	if r.Level >= slog.LevelError && h.isExpected(r) {
		r.Level = slog.Level(-1)
		if !h.next.Enabled(ctx, r.Level) {
			return nil
		}
	}
	if r.Level < slog.LevelError {
		return h.next.Handle(ctx, r)
	}
	n, leftOut := h.repeats.count(r.Message, r.Time)
	if n > MostRepeats {
		return nil
	}
	r = r.Clone()
	if leftOut > 0 {
		r.AddAttrs(slog.Int("leftOutBefore", leftOut))
	}
	if n == MostRepeats {
		r.AddAttrs(slog.Duration("nextAfter", RepeatsWindow))
	}
	return h.next.Handle(ctx, r)
}

// An overloaded control plane has an error for each request that it can't serve in time.
// Written one by one they would make it slower still, and the program stands still when
// nobody reads them as fast as they come. So of what libraries say with the same message,
// MostRepeats lines are written in RepeatsWindow.
const (
	MostRepeats   = 20
	RepeatsWindow = 10 * time.Second
)

// repeats counts errors by their message. It is safe for concurrent use.
type repeats struct {
	mu           sync.Mutex
	since        time.Time // when the window began
	seen, before map[string]int
}

// count counts an error of that time. n is how many of that message there have been in
// the window, and leftOut how many of the window before were not written: it is given
// with the first one, once.
func (c *repeats) count(message string, at time.Time) (n, leftOut int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || at.Sub(c.since) >= RepeatsWindow {
		c.since, c.before, c.seen = at, c.seen, map[string]int{}
	}
	c.seen[message]++
	if c.seen[message] == 1 {
		leftOut = max(0, c.before[message]-MostRepeats)
	}
	return c.seen[message], leftOut
}

func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.next.WithAttrs(attrs), h.stopping, h.repeats}
}

func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.next.WithGroup(name), h.stopping, h.repeats}
}

func demote(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return level
	}
	return min(level, 0) - 1
}

func (h libraryHandler) isExpected(r slog.Record) bool {
	l := lineOf(r)
	if anyMatches(expected, l) {
		return true
	}
	select {
	case <-h.stopping:
		return anyMatches(expectedAtStop, l)
	default:
		return false
	}
}

// line is what an expectation looks at.
type line struct{ logger, message, err string }

func lineOf(r slog.Record) line {
	l := line{message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key { // the names that logr gives them
		case "logger":
			l.logger = a.Value.String()
		case "err":
			l.err = a.Value.String()
		}
		return true
	})
	return l
}

func anyMatches(expectations []expectation, l line) bool {
	for _, e := range expectations {
		if e.matches(l) {
			return true
		}
	}
	return false
}

// matches reports whether a line is expected. Kubernetes' older code writes its
// errors into the message.
func (e expectation) matches(l line) bool {
	return strings.HasSuffix(l.logger, e.logger) &&
		strings.Contains(l.message, e.message) &&
		(strings.Contains(l.err, e.err) || strings.Contains(l.message, e.err))
}

// expectation describes errors that libraries log though nothing is wrong. All
// of its fields have to match; an empty one matches everything. Other attributes
// of a line do not count.
type expectation struct {
	// logger is the end of the logger's name.
	logger string
	// message is a part of the message.
	message string
	// err is a part of the error.
	err string
}

// unhandled is the logger of errors that Kubernetes' code can't return.
const unhandled = "UnhandledError"

// expected are errors of a normal start and of normal life.
var expected = []expectation{
	// No file of that kind is ever given.
	{message: "The manifest file is empty, ignoring"},
	// The namespaces are made at the same time as what lives in them; both are
	// tried again a moment later.
	{err: `namespaces "kube-system" not found`},
	{err: `namespaces "kube-node-lease" not found`},
	{err: `namespaces "kube-public" not found`},
	{err: `namespaces "default" not found`},
	// Nothing removes the API server's own endpoint at a stop, as there is
	// nothing behind it.
	{message: "Found stale data, removed previous endpoints on kubernetes service"},
	// The first start gives the API server's own service its address.
	{logger: unhandled, err: "is not allocated; repairing"},
	// A client went away before it had its answer.
	{err: "context canceled"},
	// Controllers that are ahead of their caches try again.
	{err: "is not as new as written version"},
	{err: "the object has been modified; please apply your changes to the latest version"},
}

// expectedAtStop are errors of a stop, which ends requests that are under way.
// Before it the same errors say that the server is overloaded or a part of it
// fails.
var expectedAtStop = []expectation{
	{err: "http: Server closed"},
	{err: "server is shutting down"},
	{err: "io: read/write on closed pipe"},
	{err: "http: Handler timeout"},
	{logger: unhandled, message: "Timeout or abort while handling"},
	{logger: unhandled, message: "Post-timeout activity"},
	{message: "FinishRequest: post-timeout activity"},
	{logger: unhandled, err: "FinishRequest: post-timeout activity"},
	{logger: unhandled, err: "Unable to sync caches"},
	{logger: unhandled, err: "timed out waiting for dependency graph builder sync"},
	{message: "failed to get informer from cache"},
	{message: "Unable start event watcher"},
	{message: "Unable to remove peer endpoint leases"},
	// A leader that stops releases its Lease.
	{message: "error received after stop sequence was engaged", err: "leader election lost"},
}
