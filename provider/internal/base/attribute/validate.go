package attribute

import (
	"context"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// Described is the part of a validator that documents it.
type Described string

// Description implements the validators' interfaces.
func (d Described) Description(context.Context) string { return string(d) }

// MarkdownDescription implements the validators' interfaces.
func (d Described) MarkdownDescription(context.Context) string { return string(d) }

// textValidator checks texts that are set and known.
type textValidator struct {
	Described
	check func(at path.Path, text string) (summary, detail string)
}

// ValidateString implements validator.String.
func (v textValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if summary, detail := v.check(req.Path, req.ConfigValue.ValueString()); summary != "" {
		resp.Diagnostics.AddAttributeError(req.Path, summary, detail)
	}
}

// ValidText is a validator of texts. check gets those that are set and known, and
// returns what is wrong; an empty summary is nothing.
func ValidText(description string, check func(at path.Path, text string) (summary, detail string)) validator.String {
	return textValidator{Described(description), check}
}

// ValidName admits names that are one DNS label. what says what is named, such as
// "namespace".
func ValidName(what string) validator.String {
	return ValidText(labelDescription(what), func(_ path.Path, name string) (summary, detail string) {
		return CheckLabel(what, name)
	})
}

// ValidClusterName admits names of clusters: DNS labels, as they are names of
// namespaces too, save for some that are reserved.
func ValidClusterName() validator.String {
	const what = "cluster name"
	return ValidText(labelDescription(what), func(at path.Path, name string) (summary, detail string) {
		if summary, detail := CheckLabel(what, name); summary != "" {
			return summary, detail
		}
		if err := cluster.ReservedName(name); err != nil {
			return "Reserved " + what, fmt.Sprintf("%s is %q, and %v.", Place(at), name, err)
		}
		return "", ""
	})
}

func labelDescription(what string) string {
	return what + " is a DNS label: at most 63 lower-case letters, digits and hyphens, with a letter or digit at " +
		"both ends"
}

// CheckLabel says why a name can't be that of what, which takes a DNS label.
func CheckLabel(what, name string) (summary, detail string) {
	if len(validation.IsDNS1123Label(name)) == 0 {
		return "", ""
	}
	return "Invalid " + what, fmt.Sprintf("%q cannot be used as %s: %s. Try %q.", name, what, labelDescription(what),
		SuggestName(name))
}

// ValidObjectName admits names of ordinary objects: DNS subdomains.
func ValidObjectName(what string) validator.String {
	description := what + " consists of at most 253 lower-case letters, digits, hyphens and dots, with a letter or " +
		"digit at both ends"
	return ValidText(description, func(_ path.Path, name string) (summary, detail string) {
		if len(validation.IsDNS1123Subdomain(name)) == 0 {
			return "", ""
		}
		return "Invalid " + what, fmt.Sprintf("%q cannot be used as %s: %s. Try %q.", name, what, description,
			SuggestName(name))
	})
}

// SuggestName is the nearest valid name.
func SuggestName(name string) string {
	cleaned := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, name)
	if len(cleaned) > 63 {
		cleaned = cleaned[:63]
	}
	if cleaned = strings.Trim(cleaned, "-"); cleaned == "" {
		return "cluster1"
	}
	return cleaned
}

// ValidKey admits the keys of labels and taints.
func ValidKey(what string) validator.String {
	return ValidText(what+" has the form of a label key: name or prefix.example.com/name",
		func(_ path.Path, key string) (summary, detail string) {
			if problems := validation.IsQualifiedName(key); len(problems) > 0 {
				return "Invalid " + what, fmt.Sprintf("%q cannot be used as %s: %s.", key, what, strings.Join(problems,
					"; "))
			}
			return "", ""
		})
}

// ValidDuration admits durations of at least minimum.
func ValidDuration(minimum time.Duration) validator.String {
	description := fmt.Sprintf("a duration such as 30m or 24h, at least %s", minimum)
	return ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		duration, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return "Invalid duration", fmt.Sprintf("%q is not a duration: write a number with a unit for each part, "+
				"such as 30m, 1h30m or 24h.", text)
		case duration < minimum:
			return "Invalid duration", fmt.Sprintf("%s is too short: it takes %s.", text, description)
		}
		return "", ""
	})
}

// ValidURL admits absolute URLs.
func ValidURL() validator.String { return validURL("a URL such as https://hub.example.com:6443", "") }

// ValidHTTPSURL admits absolute URLs with the scheme https.
func ValidHTTPSURL() validator.String {
	return validURL("a URL such as https://hub.example.com:6443; only https is admitted", "https")
}

func validURL(description, scheme string) validator.String {
	return ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		parsed, err := url.Parse(text)
		if err != nil || parsed.Scheme == "" || parsed.Host == "" || (scheme != "" && parsed.Scheme != scheme) {
			return "Invalid URL", fmt.Sprintf("%q is not %s.", text, description)
		}
		return "", ""
	})
}

// ValidPEM admits PEM text. It never repeats the value, which may be a key.
func ValidPEM() validator.String {
	return ValidText("PEM text that begins with -----BEGIN", func(_ path.Path, text string) (summary, detail string) {
		if block, _ := pem.Decode([]byte(text)); block == nil {
			return "Invalid PEM", "The value is not PEM: it has to begin with -----BEGIN and hold base64 lines. " +
				"Where it comes out of a kubeconfig, decode it first with base64decode()."
		}
		return "", ""
	})
}

// ValidSelector admits label selectors in the notation of kubectl.
func ValidSelector() validator.String {
	const description = "a label selector such as env=prod,region in (eu,us)"
	return ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		if _, err := labels.Parse(text); err != nil {
			return "Invalid label selector", "\"" + text + "\" is not " + description + ": " + err.Error() + "."
		}
		return "", ""
	})
}

// ValidTime admits times in RFC 3339 and whole seconds.
func ValidTime() validator.String {
	const description = "a time in RFC 3339 and whole seconds, such as 2027-01-31T00:00:00Z"
	return ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		if moment, err := time.Parse(time.RFC3339, text); err != nil || moment.Nanosecond() != 0 {
			return "Invalid time", fmt.Sprintf("%q is not %s. A time from now is timeadd(plantimestamp(), \"24h\"), "+
				"which changes with every plan.", text, description)
		}
		return "", ""
	})
}

// ValidLabels admits maps that can be labels. reserved, which may be nil, tells
// why a key can't be set here, or "".
func ValidLabels(reserved func(key string) string) validator.Map {
	return labelsValidator{Described: "Kubernetes labels", reserved: reserved}
}

// ValidAnnotations admits maps that can be annotations, without the provider's
// own.
func ValidAnnotations() validator.Map {
	return labelsValidator{Described: "Kubernetes annotations", reserved: ReservedAnnotation, annotations: true}
}

type labelsValidator struct {
	Described
	reserved func(key string) string
	// annotations have any text as values, and keys in any case.
	annotations bool
}

// ValidateMap implements validator.Map.
func (v labelsValidator) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	for key, element := range req.ConfigValue.Elements() {
		at := req.Path.AtMapKey(key)
		if problems := v.checkKey(key); len(problems) > 0 {
			resp.Diagnostics.AddAttributeError(at, "Invalid key",
				fmt.Sprintf("%q is not a valid key: %s.", key, strings.Join(problems, "; ")))
			continue
		}
		if v.reserved != nil {
			if why := v.reserved(key); why != "" {
				resp.Diagnostics.AddAttributeError(at, "Reserved key",
					fmt.Sprintf("%q can't be set here: %s.", key, why))
				continue
			}
		}
		value, ok := element.(types.String)
		if !ok || value.IsNull() || value.IsUnknown() {
			continue
		}
		if v.annotations {
			// As the hub refuses them.
			if _, err := rollout.ReadGates(map[string]string{key: value.ValueString()}); err != nil {
				resp.Diagnostics.AddAttributeError(at, "Invalid gates", err.Error()+".")
			}
			continue
		}
		if problems := validation.IsValidLabelValue(value.ValueString()); len(problems) > 0 {
			resp.Diagnostics.AddAttributeError(at, "Invalid label value",
				fmt.Sprintf("%q is not a valid value of the label %s: %s.", value.ValueString(), key,
					strings.Join(problems,
						"; ")))
		}
	}
}

// checkKey follows Kubernetes, which is strict about the prefix of a label and
// takes that of an annotation in any case.
func (v labelsValidator) checkKey(key string) []string {
	if v.annotations {
		key = strings.ToLower(key)
	}
	return validation.IsQualifiedName(key)
}

// ValidClientID checks the client ID of a cluster.
func ValidClientID() validator.String { return validBy("client ID", cluster.CheckClientID) }

// ValidAllowedLabel checks the key of a label, or with a * at the end the beginning
// of keys, that a bootstrap token lets agents choose.
func ValidAllowedLabel() validator.String {
	return validBy("label key", func(key string) error { return cluster.CheckAllowedLabels([]string{key}) })
}

func validBy(what string, check func(string) error) validator.String {
	return ValidText("a "+what, func(at path.Path, text string) (summary, detail string) {
		if err := check(text); err != nil {
			return "Invalid " + what, fmt.Sprintf("%s: %v.", Place(at), err)
		}
		return "", ""
	})
}

// ValidJSONPath admits the JSONPaths that a hub accepts in a work.
func ValidJSONPath() validator.String {
	return validPath("a JSONPath with at most one ..", workcheck.JSONPath)
}

// ValidJQPath admits the jq paths that a hub accepts in a work.
func ValidJQPath() validator.String { return validPath("a jq expression that is a path", workcheck.JQ) }

// validPath reads a path while planning: the hub refuses a work with one that
// can't be read, or that costs too much, and an upstream hub's agent reports it.
func validPath(description string, check func(string) error) validator.String {
	return ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if err := check(text); err != nil {
			return "Invalid path", fmt.Sprintf("%s: %s.", Place(at), err)
		}
		return "", ""
	})
}

// ValidCondition accepts CEL expressions that can be compiled into a condition.
func ValidCondition() validator.String {
	return validExpression("an expression in CEL over object", sync.OnceValues(expression.ForConditions),
		"the variable object, such as object.status.readyReplicas == object.spec.replicas")
}

// ValidMessage admits expressions in CEL that yield the message of a condition.
func ValidMessage() validator.String {
	return validExpression("an expression in CEL over object and result", sync.OnceValues(expression.ForMessages),
		"the variables object and result, such as result ? \"done\" : \"busy\"")
}

// validExpression compiles an expression while planning: what is wrong with it
// would otherwise only show in the conditions of works. sees says which variables
// there are.
func validExpression(description string, env func() (*expression.Env, error), sees string) validator.String {
	return ValidText(description, func(at path.Path, text string) (summary, detail string) {
		e, err := env()
		if err == nil {
			err = e.Check(text)
		}
		if err != nil {
			return "Invalid expression", fmt.Sprintf("%s can't be evaluated on any object: %s\n\nIt has to be an "+
				"expression in CEL over %s.", Place(at), err, sees)
		}
		return "", ""
	})
}

// WholeBetween admits whole numbers. The framework's own type of whole numbers calls
// a broken one a defect of the provider.
func WholeBetween(least, most int64) validator.Number {
	return wholeNumber{Described(fmt.Sprintf("a whole number between %d and %d", least, most)), least, most}
}

type wholeNumber struct {
	Described
	least, most int64
}

// ValidateNumber implements validator.Number.
func (v wholeNumber) ValidateNumber(_ context.Context, req validator.NumberRequest, resp *validator.NumberResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	number := req.ConfigValue.ValueBigFloat()
	if whole, exact := number.Int64(); !number.IsInt() || exact != big.Exact || whole < v.least || whole > v.most {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid number",
			fmt.Sprintf("%s is %s, but it takes %s.", req.Path, number.Text('g', -1), string(v.Described)))
	}
}

// WholeValue is a whole number in Terraform.
func WholeValue(number int64) types.Number { return types.NumberValue(new(big.Float).SetInt64(number)) }

// Whole is a whole number in Go. ok is false for other values.
func Whole(value attr.Value) (number int64, ok bool) {
	of, ok := value.(types.Number)
	if !ok || of.IsNull() || of.IsUnknown() {
		return 0, false
	}
	number, exact := of.ValueBigFloat().Int64()
	return number, exact == big.Exact
}
