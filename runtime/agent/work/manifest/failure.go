package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// ErrIgnoreFields marks what went wrong with a manifest's ignored fields.
var ErrIgnoreFields = errors.New("Failed to process ignoreFields")

// ErrNoTurn marks a manifest that waits, as the paths to its ignored fields cost so
// much that its work has to wait for its turn.
var ErrNoTurn = errors.New("it waits for its turn: the paths to the fields that it ignores cost so much " +
	"that only one such work is carried out at a time; begin the paths with the names of fields, or use fewer")

// applyConflictError is a conflict with another field manager, in the server's
// words. No quick retry resolves it.
type applyConflictError struct{ error }

func (e applyConflictError) Unwrap() error { return e.error }

// Conflict marks an error as a conflict with another field manager.
func Conflict(err error) error { return applyConflictError{err} }

// IsConflict reports whether a manifest's fields belong to others.
func IsConflict(err error) bool {
	var conflict applyConflictError
	return errors.As(err, &conflict)
}

// deniedError says that a work's executor may not do what the work asks.
type deniedError struct{ why string }

func (e *deniedError) Error() string { return e.why }

// Denied is the error of an executor that may not do something.
func Denied(why string) error { return &deniedError{why} }

// IsDenied reports whether a work's executor may not do what the work asks.
func IsDenied(err error) bool {
	var no *deniedError
	return errors.As(err, &no)
}

// DeniedRetry is how long a work waits whose executor was denied: rights are
// only watched with the gate ExecutorValidatingCaches.
const DeniedRetry = time.Minute

// DeniedAdvice ends the errors of executors that were denied something.
var DeniedAdvice = ", will try again in " + DeniedRetry.String()

// RetriedRarely reports whether a quick retry of a manifest would not help.
func RetriedRarely(err error) bool {
	return IsDenied(err) || IsConflict(err) || errors.Is(err, ErrNoTurn) || errors.Is(err, fieldpath.ErrLimit)
}

// failure is an API server's error in words that may be shown in a status, in
// events and in logs: their readers are not only the authors of the manifest. The
// server prints parts of the object, such as whole pod templates with passwords
// in their environment; that is left out. The error itself stays what it was.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// maxShownValue is the longest plain value, in bytes, that is shown of an object.
const maxShownValue = 64

// Redacted is what went wrong with a manifest, without the object's content.
func Redacted(m workv1.ManifestResourceMeta, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		text = withoutCauses(text, status.Status(), m)
	}
	if text = typedValue.ReplaceAllString(text, "got a value of another type"); text == err.Error() {
		return err
	}
	return &failure{text, err}
}

// typedValue is how server-side apply prints a value that is not of the type of
// its field.
var typedValue = regexp.MustCompile(`got &?value\.[a-zA-Z]+\{(?s:.*)\}|got (?s:.*?)value\.valueUnstructured\{(?s:.*)\}`)

// withoutCauses replaces the list of causes in an error's text, if there are any
// that print more than they should.
func withoutCauses(text string, status metav1.Status, m workv1.ManifestResourceMeta) string {
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return text
	}
	var was, is []string
	for _, c := range status.Details.Causes {
		full, short := c.Message, withoutValue(c, m)
		if c.Field != "" {
			full, short = c.Field+": "+full, c.Field+": "+short
		}
		was, is = append(was, full), append(is, short)
	}
	if strings.Join(was, ", ") == strings.Join(is, ", ") {
		return text
	}
	list := strings.Join(is, ", ")
	if len(is) > 1 {
		list = "[" + list + "]"
	}
	// The text is "Job.batch "x" is invalid: " and the causes.
	if before, _, ok := strings.Cut(text, " is invalid: "); ok && !strings.ContainsAny(before, "{\n") {
		return before + " is invalid: " + list
	}
	return fmt.Sprintf("%s %q is invalid: %s", m.Kind, m.Name, list)
}

// withoutValue is the message of a cause without the value that it prints, if
// that is more than a number or a few plain words.
func withoutValue(c metav1.StatusCause, m workv1.ManifestResourceMeta) string {
	kind, rest, ok := strings.Cut(c.Message, ": ")
	if !ok {
		return c.Message
	}
	switch c.Type {
	case metav1.CauseTypeFieldValueInvalid, metav1.CauseTypeFieldValueNotSupported, metav1.CauseTypeFieldValueDuplicate,
		metav1.CauseTypeFieldValueNotFound, metav1.CauseTypeTypeInvalid:
	default:
		return c.Message // no value, as in: Required value: name it
	}
	value, detail, ok := cutValue(rest)
	switch {
	case !ok:
		if strings.HasSuffix(rest, immutable) {
			return kind + immutable
		}
		return kind
	case isPlain(value) && !isPrivate(c.Field, m):
		return c.Message
	}
	return kind + detail
}

const immutable = ": field is immutable"

// cutValue cuts the value from what follows it, if it is known where it ends.
func cutValue(text string) (value, detail string, ok bool) {
	switch {
	case text == "":
		return "", "", true
	case text[0] == '"':
		if quoted, err := strconv.QuotedPrefix(text); err == nil {
			value = quoted
		}
	case text[0] == '{' || text[0] == '[':
		d := json.NewDecoder(strings.NewReader(text))
		var raw json.RawMessage
		if d.Decode(&raw) == nil {
			value = text[:d.InputOffset()]
		}
	default:
		if word, _, _ := strings.Cut(text, ": "); !strings.ContainsAny(word, "{[(\"' ") {
			value = word
		}
	}
	detail = text[len(value):]
	return value, detail, value != "" && (detail == "" || strings.HasPrefix(detail, ": "))
}

// isPlain reports whether a value is short, and no list or object.
func isPlain(value string) bool {
	return len(value) <= maxShownValue && !strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "[")
}

// privateField are the names of fields whose values are private.
var privateField = regexp.MustCompile(`(?i)(password|passwd|secret|token|credential|private|key|env\b|data\b|value\b)`)

// isPrivate reports whether the value of a field is private: of secrets
// all but their metadata, of others what looks like it by its name.
func isPrivate(field string, m workv1.ManifestResourceMeta) bool {
	switch {
	case strings.HasPrefix(field, "metadata.annotations"):
		return true
	case strings.HasPrefix(field, "metadata."), field == "type":
		return false
	}
	return m.Group == "" && m.Kind == "Secret" || privateField.MatchString(field)
}
