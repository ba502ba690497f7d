package workload

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifest"
)

// minSecret is the length, in bytes, of the shortest value that is masked in
// messages. Shorter ones would mask half of every sentence.
const minSecret = 3

// Mask replaces in diagnostics what fields masks, and all values of the write-only
// manifests: a server or an agent may quote them.
func (c Content) Mask(diags *diag.Diagnostics) {
	if len(*diags) == 0 {
		return
	}
	replacer := c.masking()
	var masked diag.Diagnostics
	for _, d := range *diags {
		summary, detail := replacer.Replace(d.Summary()), replacer.Replace(d.Detail())
		var replaced diag.Diagnostic = diag.NewErrorDiagnostic(summary, detail)
		if d.Severity() == diag.SeverityWarning {
			replaced = diag.NewWarningDiagnostic(summary, detail)
		}
		if at, ok := d.(diag.DiagnosticWithPath); ok {
			replaced = diag.WithPath(at.Path(), replaced)
		}
		if summary == d.Summary() && detail == d.Detail() {
			replaced = d
		}
		masked = append(masked, replaced)
	}
	*diags = masked
}

// MaskWith is Mask with the write-only manifests of a configuration.
func (c Content) MaskWith(ctx context.Context, config Source, diags *diag.Diagnostics) {
	if len(*diags) == 0 {
		return
	}
	if config.GetAttribute(ctx, path.Root("manifests_wo"), &c.WriteOnly).HasError() {
		c.WriteOnly = None().WriteOnly
	}
	c.Mask(diags)
}

// Masked is a message about a work whose content only the hub has told.
func (l Live) Masked(message string) string {
	open, hidden, err := l.Read(nil)
	if err != nil {
		return message
	}
	return replacerOf(open, hidden).Replace(message)
}

// masking replaces the content's secrets.
func (c Content) masking() *strings.Replacer {
	open, err := c.open()
	if err != nil {
		open = nil
	}
	closed, err := c.closed()
	if err != nil {
		closed = nil
	}
	return replacerOf(open, closed)
}

// replacerOf replaces the secrets of some objects, and all values of others.
func replacerOf(open, closed []manifest.Object) *strings.Replacer {
	var secrets []string
	for _, object := range open {
		secrets = append(secrets, object.Secrets()...)
	}
	for _, object := range closed {
		secrets = append(secrets, object.Values()...)
	}
	var all []string
	for _, secret := range secrets {
		forms := []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), strings.Trim(strconv.Quote(secret), `"`)}
		if decoded, err := base64.StdEncoding.DecodeString(secret); err == nil {
			forms = append(forms, string(decoded))
		}
		for _, form := range forms {
			if len(form) >= minSecret {
				all = append(all, form)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	var pairs []string
	for _, secret := range slices.Compact(all) {
		pairs = append(pairs, secret, "(sensitive)")
	}
	return strings.NewReplacer(pairs...)
}
