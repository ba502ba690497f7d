package expression

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ErrCall marks a call that was not made, as it would have cost too much by itself.
var ErrCall = errors.New("more than an expression may do")

// price is what a call costs, in CEL's units, found before the call is made. A
// unit is about a tenth of a microsecond. limit is the greatest number of interest:
// beyond it any number will do. An error, which wraps ErrCall or ErrLimits, is for a
// call that is not made whatever else is allowed.
type price func(args []ref.Val, limit int) (int, error)

// constant are functions that take the same short time whatever they are given, or
// that hand on what they are given. They are called as they are.
var constant = sets.New(
	"!_", "-_", "_-_", "_*_", "_/_", "_%_", "_&&_", "_||_", "_?_:_", "@not_strictly_false", "__not_strictly_false__",
	"_[_]", "_[?_]", "_?._", "type", "hasValue", "value", "or", "orValue", "first", "last", "hasConditions",
	"optional.none", "format.named", "major", "minor", "patch",
	"family", "isGlobalUnicast", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isUnspecified",
	"masked", "prefixLength", "getScheme", "getHost", "getHostname", "getPort",
)

// unguarded are functions that are charged by the size of what they are given, and
// so fast that no call takes long.
var unguarded = sets.New("_<_", "_<=_", "_>_", "_>=_", "startsWith", "endsWith", "size", "cel.@mapInsert")

// prices are those of the functions that are known. Every other one, such as a
// function that comes with another version of a library, has the price unknown.
var prices = map[string]price{
	"cel.@mapInsert": added, "size": textSize,
	"_==_": sum, "_!=_": sum, "_<_": sum, "_<=_": sum, "_>_": sum, "_>=_": sum,
	"@in": contained, "in": contained, "_in_": contained, "_+_": joined,
	listLiteral: elements, mapLiteral: elements, "dyn": keys,
	"bool": sum, "bytes": sum, "double": sum, "duration": sum, "int": sum, "string": sum, "timestamp": sum, "uint": sum,
	"charAt": sum, "contains": sum, "endsWith": sum, "lowerAscii": sum, "startsWith": sum, "strings.quote": sum,
	"substring": sum, "trim": sum, "upperAscii": sum,
	"isSorted": sum, "max": sum, "min": sum, "reverse": sum, "slice": sum, "sum": sum,
	"optional.of": sum, "optional.ofNonZeroValue": sum, "optional.unwrap": sum, "unwrapOpt": sum,
	"indexOf": searched, "lastIndexOf": searched, "replace": replaced, "split": split,
	"join": between, "format": formatted,
	"lists.range": ranged, "sort": sorted, "@sortByAssociatedKeys": sorted, "flatten": flattened,
	"distinct": pairs, "includes": pairs, "sets.contains": pairs, "sets.equivalent": pairs, "sets.intersects": pairs,
	"matches": matched, "find": matched, "findAll": matchedAll, "validate": times(10),
	"quantity": quantity, "isQuantity": quantity, "semver": short(maxQuantity), "isSemver": short(maxQuantity),
	"url": short(maxURL), "isURL": short(maxURL), "getEscapedPath": flat(20), "getQuery": flat(20),
	"ip": short(maxQuantity), "isIP": short(maxQuantity), "ip.isCanonical": short(maxQuantity),
	"containsIP": short(maxQuantity),
	"cidr":       short(maxQuantity), "isCIDR": short(maxQuantity), "containsCIDR": short(maxQuantity),
	"add": flat(20), "sub": flat(20), "asApproximateFloat": flat(100), "asInteger": flat(20), "isInteger": flat(20),
	"compareTo": flat(100), "isGreaterThan": flat(100), "isLessThan": flat(100), "sign": flat(20),
	"getDate": zoned, "getDayOfMonth": zoned, "getDayOfWeek": zoned, "getDayOfYear": zoned, "getFullYear": zoned,
	"getHours": zoned, "getMilliseconds": zoned, "getMinutes": zoned, "getMonth": zoned, "getSeconds": zoned,
	"parseJSON": sum, "scores": flat(1),
}

// isPriced reports whether a function is one whose price depends on more than the size of what they are
// given, so that it is reckoned for the smallest value, too.
func isPriced(function string) bool {
	_, known := prices[function]
	switch function {
	case "lists.range", "quantity", "isQuantity", "matches", "find", "findAll", "format", "flatten":
		return true
	}
	return !known
}

// priceOf is that of a function.
func priceOf(function string) price {
	if p, ok := prices[function]; ok {
		return p
	}
	return unknown
}

// sum is for functions that read each argument once.
func sum(args []ref.Val, limit int) (int, error) {
	n := 0
	for _, v := range args {
		n += weigh(v, limit-n)
	}
	return n, nil
}

// elements is for what is in a list or map that is written out: plain values cost
// nothing but the list.
func elements(args []ref.Val, limit int) (int, error) {
	n, err := sum(args, limit)
	return n - len(args), err
}

// unknown is for functions without a known price: the square of all that they
// are given, where a number counts by its value.
func unknown(args []ref.Val, limit int) (int, error) {
	n, _ := sum(args, limit)
	for _, v := range args {
		if i, ok := v.(types.Int); ok {
			n += int(min(max(i, -i, 0), types.Int(limit)))
		}
	}
	n = min(n, limit+1)
	return n * n, nil
}

func flat(units int) price { return func([]ref.Val, int) (int, error) { return units, nil } }

func times(factor int) price {
	return func(args []ref.Val, limit int) (int, error) {
		n, err := sum(args, limit)
		return factor * n, err
	}
}

// short is for functions that read a text, or what was made of one, that has a most
// length.
func short(most int) price {
	return func(args []ref.Val, limit int) (int, error) {
		for i := range args {
			if text, ok := textAt(args, i); ok && len(text) > most {
				return 0, tooMuch("a text of %d bytes, where %d are allowed", len(text), most)
			}
		}
		n, err := sum(args, limit)
		return 5 * n, err
	}
}

// zoned is for functions that read a time; the files of a time zone are read each
// time.
func zoned(args []ref.Val, limit int) (int, error) {
	if len(args) < 2 {
		return 1, nil
	}
	n, err := sum(args[1:], limit)
	return 1000 + n, err
}

// textSize is for size, which reads texts only.
func textSize(args []ref.Val, limit int) (int, error) {
	if len(args) == 1 {
		if _, text := args[0].(types.String); text {
			return weigh(args[0], limit), nil
		}
	}
	return 1, nil
}

// keys is for what a loop runs over: that of a map begins with a list of its keys.
func keys(args []ref.Val, _ int) (int, error) {
	if m, ok := args[0].(traits.Mapper); ok {
		n, _ := m.Size().(types.Int)
		return 1 + int(n), nil
	}
	return 1, nil
}

// added is for what is added to a map that a loop makes, whose making has been
// counted.
func added(args []ref.Val, limit int) (int, error) { return sum(args[1:], limit) }

// joined is for what is put together. A list that a loop makes is added to, and
// its making has been counted.
func joined(args []ref.Val, limit int) (int, error) {
	if _, growing := args[0].(traits.MutableLister); growing {
		return sum(args[1:], limit)
	}
	if list, ok := args[0].(traits.Lister); ok {
		n, err := sum(args[1:], limit)
		return n + sizeOf(list), err
	}
	return sum(args, limit)
}

// contained is for in: one look-up in a map, a comparison with each element of a
// list.
func contained(args []ref.Val, limit int) (int, error) {
	if _, ok := args[len(args)-1].(traits.Mapper); ok {
		return sum(args[:1], limit)
	}
	return sum(args, limit)
}

// searched is for a text that is looked for at each place of another one, letter by
// letter, or an element of a list.
func searched(args []ref.Val, limit int) (int, error) {
	in, ok := textAt(args, 0)
	text, okText := textAt(args, 1)
	if !ok || !okText {
		return sum(args, limit)
	}
	// Both are taken apart into letters.
	return 1 + (len(in)+len(text))/5 + len(in)*len(text)/lettersPerUnit, nil
}

func replaced(args []ref.Val, limit int) (int, error) {
	in, _ := textAt(args, 0)
	old, _ := textAt(args, 1)
	by, _ := textAt(args, 2)
	n, err := sum(args, limit)
	return n + (len(in)+strings.Count(in, old)*(1+len(by)))/10, err
}

func split(args []ref.Val, limit int) (int, error) {
	in, _ := textAt(args, 0)
	by, _ := textAt(args, 1)
	n, err := sum(args, limit)
	return n + strings.Count(in, by), err
}

func between(args []ref.Val, limit int) (int, error) {
	text, _ := textAt(args, 1)
	n, err := sum(args, limit)
	return n + sizeOf(args[0])*len(text)/10, err
}

// precision is that of a number in a format, of four digits or more.
var precision = regexp.MustCompile(`%\.[0-9]{4}`)

func formatted(args []ref.Val, limit int) (int, error) {
	text, _ := textAt(args, 0)
	if precision.MatchString(text) {
		return 0, tooMuch("format would write a number with a thousand digits or more")
	}
	n, err := sum(args, limit)
	return 5*n + 50*strings.Count(text, "%"), err
}

// ranged is for a number of elements that is given.
func ranged(args []ref.Val, limit int) (int, error) {
	n, _ := args[0].(types.Int)
	return int(min(max(n, 0), types.Int(limit)) + 1), nil
}

func sorted(args []ref.Val, limit int) (int, error) {
	n, err := sum(args, limit)
	return n * (1 + bits.Len(uint(sizeOf(args[0])))), err
}

// flattened is for lists in lists: each level is copied.
func flattened(args []ref.Val, limit int) (int, error) {
	n, err := sum(args[:1], limit)
	levels := types.Int(1)
	if len(args) > 1 {
		levels, _ = args[1].(types.Int)
	}
	return n * int(min(max(levels, 1), types.Int(limit))), err
}

// pairs is for functions that compare each element of a list with each of another
// one, or of the same, both ways. A comparison reads the smaller of both at the most.
func pairs(args []ref.Val, limit int) (int, error) {
	all, err := sum(args, limit)
	a, b := args[0], args[len(args)-1]
	n, m := max(1, sizeOf(a)), max(1, sizeOf(b))
	return all + 2*min(m*weigh(a, limit), n*weigh(b, limit)), err
}

// exponent is one of four digits or more, whose powers of ten are written out when
// quantities are compared.
var exponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

func quantity(args []ref.Val, limit int) (int, error) {
	if text, ok := textAt(args, 0); ok && (len(text) > maxQuantity || exponent.MatchString(text)) {
		return 0, tooMuch("a quantity with thousands of digits")
	}
	n, err := sum(args, limit)
	return 5 * n, err
}

// matched is for regular expressions: each state may be looked at for each letter.
func matched(args []ref.Val, limit int) (int, error) {
	text, ok := textAt(args, 0)
	pattern, okPattern := textAt(args, 1)
	if !ok || !okPattern {
		return 1, nil
	}
	states, err := states(pattern)
	if err != nil {
		return 0, err
	}
	return 1 + states*(1+len(text))/stepsPerUnit, nil
}

// matchedAll is for all matches: each may take as long as the first.
func matchedAll(args []ref.Val, limit int) (int, error) {
	text, _ := textAt(args, 0)
	n, err := matched(args, limit)
	matches := types.Int(len(text))
	if len(args) > 2 {
		if most, ok := args[2].(types.Int); ok && most >= 0 {
			matches = min(matches, most)
		}
	}
	return n * (1 + int(matches)), err
}

func tooMuch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCall, fmt.Sprintf(format, args...))
}

func textAt(args []ref.Val, i int) (string, bool) {
	if i >= len(args) {
		return "", false
	}
	s, ok := args[i].(types.String)
	return string(s), ok
}

func sizeOf(v ref.Val) int {
	if list, ok := v.(traits.Lister); ok {
		n, _ := list.Size().(types.Int)
		return int(n)
	}
	return 0
}
