package embedded

import (
	"errors"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Diagnostic is an error or a warning of the provider. As an error it is found
// with errors.As.
type Diagnostic struct { //nolint:errname // as often a warning as an error
	// Summary says in a few words what is wrong; Detail says why, and what to do.
	Summary, Detail string
	// Attribute is the path of the attribute that it is about; empty if it is about
	// none.
	Attribute string
}

// Error implements error.
func (d Diagnostic) Error() string {
	text := d.Summary
	if d.Attribute != "" {
		text += " (" + d.Attribute + ")"
	}
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return text
}

// report hands warnings on and returns the errors as one.
func (p *Provider) report(diagnostics []*tfprotov6.Diagnostic) error {
	var failed []error
	for _, d := range diagnostics {
		reported := Diagnostic{Summary: d.Summary, Detail: d.Detail}
		if d.Attribute != nil && len(d.Attribute.Steps()) > 0 {
			reported.Attribute = d.Attribute.String()
		}
		switch {
		case d.Severity == tfprotov6.DiagnosticSeverityError:
			failed = append(failed, reported)
		case p.Warn != nil:
			p.Warn(reported)
		}
	}
	return errors.Join(failed...)
}
