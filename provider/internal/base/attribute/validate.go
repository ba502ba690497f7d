package attribute

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
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
