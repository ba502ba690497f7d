package expression

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

// What an expression may cost. Costs are in CEL's units. Kubernetes reckons
// ten million of them to a second; a busy machine takes three times as long.
const (
	// CallLimit is what one evaluation may cost, as in Kubernetes: about a tenth of
	// a second.
	CallLimit = celconfig.PerCallLimit

	// ObjectBudget is what all expressions about one object may cost together, as
	// about one custom resource in Kubernetes: about a second.
	ObjectBudget = celconfig.RuntimeCELCostBudget

	// Timeout ends an evaluation, whatever it has cost until then. It is a net below
	// the costs: a machine that is busy enough may reach it with less.
	Timeout = 10 * time.Second
)

// How much text there may be.
const (
	// MaxLength is how long an expression may be, in bytes, as Kubernetes' selectors
	// of devices.
	MaxLength = 10 << 10

	// MaxNumber is how many expressions one object may have, and MaxTotal how long
	// they may be together, in bytes.
	MaxNumber = 64
	MaxTotal  = 16 << 10

	// excerpt is how much of an expression errors show, shownErrors
	// how many errors in it, and longestError how long these are together; lengths are in bytes.
	excerpt      = 60
	shownErrors  = 3
	longestError = 3 << 10
)

// What functions may be given. An evaluation notices what a call has cost only
// when it is over, so that no single call may take long.
const (
	// maxCall is what a call may cost: some hundredths of a second.
	maxCall = 250_000
	// smallText is how long a text may be for which no price is reckoned, in bytes.
	smallText = 64
	// maxQuantity is how long the text of a quantity, a version, an address or a range
	// of addresses may be, in bytes, and maxURL that of a URL.
	maxQuantity = 1_000
	maxURL      = 16 << 10
	// maxPattern is how many states a regular expression may have, about, and
	// stepsPerUnit how many steps of a match cost a unit: its states times the text's
	// length is how many it may take.
	maxPattern   = 2_000
	stepsPerUnit = 20
	// lettersPerUnit is how many letters are compared in a search for a unit.
	lettersPerUnit = 20
)

// ErrLimits marks an expression that is refused because of its length or of what
// it would cost on any object.
var ErrLimits = errors.New("beyond the limits of expressions")

// Named is an expression with the path of the field that holds it.
type Named struct{ Path, Text string }

// CheckTexts checks that an object's expressions are not too many, nor too long. Its
// error, which wraps ErrLimits, names the field.
func CheckTexts(expressions []Named) error {
	if len(expressions) > MaxNumber {
		return fmt.Errorf("%w: %s is expression %d, and %d are allowed: join some of them with &&", ErrLimits, expressions[MaxNumber].Path, MaxNumber+1, MaxNumber)
	}
	total := 0
	for _, e := range expressions {
		if err := checkLength(e.Text); err != nil {
			return fmt.Errorf("%s: %q: %w", e.Path, Excerpt(e.Text), err)
		}
		if total += len(e.Text); total > MaxTotal {
			return fmt.Errorf("%w: with %s, the expressions have more than the %d bytes that they may have together: shorten them", ErrLimits, e.Path, MaxTotal)
		}
	}
	return nil
}

func checkLength(text string) error {
	if len(text) > MaxLength {
		return fmt.Errorf("%w: it has %d bytes, and %d are allowed: shorten it", ErrLimits, len(text), MaxLength)
	}
	return nil
}

// compileError says what is wrong with an expression. CEL shows all of the
// expression with every error in it, which for a long one with many errors makes
// megabytes.
func compileError(expression string, issues *cel.Issues) error {
	all := issues.Errors()
	if len(all) <= shownErrors && len(expression) <= shortExpression {
		if whole := issues.String(); len(whole) <= longestError {
			return fmt.Errorf("%w: %s", ErrCompile, whole)
		}
	}
	var shown []string
	for _, e := range all[:min(len(all), shownErrors)] {
		message := text.Cut(e.Message, longestError/shownErrors)
		shown = append(shown, fmt.Sprintf("ERROR: <input>:%d:%d: %s", e.Location.Line(), e.Location.Column()+1, message))
	}
	if more := len(all) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w: %s", ErrCompile, strings.Join(shown, "\n"))
}

// Excerpt is as much of an expression as errors and conditions show of it, on
// one line.
func Excerpt(s string) string {
	return text.Cut(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "), excerpt)
}
