package workload

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
)

// What fields masks is masked in messages, however a server writes it, and so is
// all that is write-only. Names are not.
func TestMessagesAreMasked(t *testing.T) {
	content := None()
	content.Manifests = attribute.StringListValue([]string{
		`{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {a: "hunter2", b: "two\nlines"}, data: {c: "c2VjcmV0"}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {image: nginx, env: [{name: DB_PASSWORD, value: "p4ss"}]}}`,
	})
	content.WriteOnly = attribute.StringListValue([]string{`{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {a: "open sesame", b: "shop"}}`})
	for message, want := range map[string]string{
		`Secret "login" is invalid: "hunter2"`:  `Secret "login" is invalid: "(sensitive)"`,
		"aHVudGVyMg== as data":                  "(sensitive) as data",
		`"two\nlines" and two` + "\nlines":      `"(sensitive)" and (sensitive)`,
		"c2VjcmV0 is secret":                    "(sensitive) is (sensitive)",
		"Deployment web: nginx with p4ss":       "Deployment web: nginx with (sensitive)",
		"ConfigMap shop/settings: open sesame!": "ConfigMap shop/settings: (sensitive)!",
	} {
		diags := diag.Diagnostics{
			diag.NewWarningDiagnostic("x", message), diag.NewErrorDiagnostic(message, "y"), diag.NewAttributeErrorDiagnostic(path.Root("objects"), "z", message),
		}
		content.Mask(&diags)
		if diags[0].Detail() != want || diags[1].Summary() != want || diags[2].Detail() != want {
			t.Errorf("got %v, want %s", diags, want)
		}
		if diags[0].Severity() != diag.SeverityWarning || diags[1].Severity() != diag.SeverityError || strings.Contains(want, "(sensitive)") != (want != message) {
			t.Errorf("got %v", diags)
		}
		if at, ok := diags[2].(diag.DiagnosticWithPath); !ok || !at.Path().Equal(path.Root("objects")) {
			t.Errorf("the path is lost: %v", diags[2])
		}
	}
}
