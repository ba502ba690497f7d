package provider

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// described is the part of a validator that documents it.
type described string

func (d described) Description(context.Context) string         { return string(d) }
func (d described) MarkdownDescription(context.Context) string { return string(d) }

// nameValidator admits names that are one DNS label, as those of clusters,
// which are namespaces too.
type nameValidator struct{ what string }

// clusterNameKind is what nameValidator is told for names of clusters, of which
// some are reserved.
const clusterNameKind = "cluster name"

func (v nameValidator) Description(context.Context) string {
	return v.what + " is a DNS label: at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"
}

func (v nameValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (v nameValidator) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	name := req.ConfigValue.ValueString()
	if len(validation.IsDNS1123Label(name)) > 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid "+v.what,
			fmt.Sprintf("%q cannot be used as %s: %s. Try %q.", name, v.what, v.Description(ctx), suggestName(name)))
		return
	}
	if v.what != clusterNameKind {
		return
	}
	if err := cluster.ReservedName(name); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Reserved "+v.what, fmt.Sprintf("%s is %q, and %v.", req.Path, name, err))
	}
}

// suggestName makes the nearest valid name.
func suggestName(name string) string {
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

// objectNameValidator admits names of ordinary objects: DNS subdomains.
type objectNameValidator struct{ what string }

func (v objectNameValidator) Description(context.Context) string {
	return v.what + " consists of at most 253 lower-case letters, digits, hyphens and dots, with a letter or digit at both ends"
}

func (v objectNameValidator) MarkdownDescription(ctx context.Context) string {
	return v.Description(ctx)
}

func (v objectNameValidator) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	name := req.ConfigValue.ValueString()
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid "+v.what,
			fmt.Sprintf("%q cannot be used as %s: %s. Try %q.", name, v.what, v.Description(ctx), suggestName(name)))
	}
}

// labelsValidator admits maps that can be labels, save for keys that have a
// place of their own.
type labelsValidator struct {
	described
	// reserved tells why a key can't be set here, or "".
	reserved func(key string) string
	// annotations has any text as values.
	annotations bool
}

func (v labelsValidator) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	for key, element := range req.ConfigValue.Elements() {
		at := req.Path.AtMapKey(key)
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			resp.Diagnostics.AddAttributeError(at, "Invalid key",
				fmt.Sprintf("%q is not a valid key: %s.", key, strings.Join(problems, "; ")))
			continue
		}
		if v.reserved != nil {
			if why := v.reserved(key); why != "" {
				resp.Diagnostics.AddAttributeError(at, "Reserved key", fmt.Sprintf("%q can't be set here: %s.", key, why))
				continue
			}
		}
		value, ok := element.(types.String)
		if !ok || value.IsNull() || value.IsUnknown() || v.annotations {
			continue
		}
		if problems := validation.IsValidLabelValue(value.ValueString()); len(problems) > 0 {
			resp.Diagnostics.AddAttributeError(at, "Invalid label value",
				fmt.Sprintf("%q is not a valid value of the label %s: %s.", value.ValueString(), key, strings.Join(problems, "; ")))
		}
	}
}

// keyValidator admits the keys of labels and taints.
type keyValidator struct{ what string }

func (v keyValidator) Description(context.Context) string {
	return v.what + " has the form of a label key: name or prefix.example.com/name"
}

func (v keyValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (v keyValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	key := req.ConfigValue.ValueString()
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid "+v.what,
			fmt.Sprintf("%q cannot be used as %s: %s.", key, v.what, strings.Join(problems, "; ")))
	}
}

// durationValidator admits durations within bounds.
type durationValidator struct {
	minimum time.Duration
}

func (v durationValidator) Description(context.Context) string {
	return fmt.Sprintf("a duration such as 30m or 24h, at least %s", v.minimum)
}

func (v durationValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (v durationValidator) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	text := req.ConfigValue.ValueString()
	duration, err := time.ParseDuration(text)
	switch {
	case err != nil:
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid duration",
			fmt.Sprintf("%q is not a duration: write a number with a unit for each part, such as 30m, 1h30m or 24h.", text))
	case duration < v.minimum:
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid duration",
			fmt.Sprintf("%s is too short: it takes %s.", text, v.Description(ctx)))
	}
}

// urlValidator admits absolute URLs.
type urlValidator struct {
	// https admits no other scheme.
	https bool
}

func (v urlValidator) Description(context.Context) string {
	if v.https {
		return "a URL such as https://hub.example.com:6443; only https is admitted"
	}
	return "a URL such as https://hub.example.com:6443"
}

func (v urlValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (v urlValidator) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	text := req.ConfigValue.ValueString()
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" || parsed.Host == "" || (v.https && parsed.Scheme != "https") {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid URL", fmt.Sprintf("%q is not %s.", text, v.Description(ctx)))
	}
}

// pemValidator admits PEM text. It never repeats the value, which may be a key.
type pemValidator struct{}

func (pemValidator) Description(context.Context) string {
	return "PEM text that begins with -----BEGIN"
}

func (v pemValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (pemValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if block, _ := pem.Decode([]byte(req.ConfigValue.ValueString())); block == nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid PEM",
			"The value is not PEM: it has to begin with -----BEGIN and hold base64 lines. "+
				"Where it comes out of a kubeconfig, decode it first with base64decode().")
	}
}
