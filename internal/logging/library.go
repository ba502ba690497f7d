package logging

import (
	"context"
	"log/slog"
	"strings"
)

// programHandler is the handler of the program's logger. It is there for Library
// to learn when the program stops.
type programHandler struct {
	slog.Handler
	stopping <-chan struct{}
}

func (h programHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return programHandler{h.Handler.WithAttrs(attrs), h.stopping}
}

func (h programHandler) WithGroup(name string) slog.Handler {
	return programHandler{h.Handler.WithGroup(name), h.stopping}
}

// libraryHandler takes what libraries log one level down: what is information
// for the developers of Kubernetes is noise to the users of this program.
type libraryHandler struct {
	next slog.Handler
	// stopping is closed when the program stops; nil if that is not known.
	stopping <-chan struct{}
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
	return h.next.Handle(ctx, r)
}

func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.next.WithAttrs(attrs), h.stopping}
}

func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.next.WithGroup(name), h.stopping}
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
