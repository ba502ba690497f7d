package inprocess

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Diagnostic is an error or a warning.
type Diagnostic struct {
	Warning         bool
	Summary, Detail string
	// Address is that of the resource that it is about; empty if it is about none.
	Address string

	where   string   // file, line and block
	snippet []string // the lines, with their numbers
}

// Diagnostics are errors and warnings.
type Diagnostics []Diagnostic //nolint:errname // warnings alone are not an error

// HasErrors reports whether not all of them are warnings.
func (d Diagnostics) HasErrors() bool { return len(d.Errors()) > 0 }

// Errors are those that are no warnings.
func (d Diagnostics) Errors() Diagnostics {
	return slices.DeleteFunc(slices.Clone(d), func(d Diagnostic) bool { return d.Warning })
}

// Warnings are those that are no errors.
func (d Diagnostics) Warnings() Diagnostics {
	return slices.DeleteFunc(slices.Clone(d), func(d Diagnostic) bool { return !d.Warning })
}

// Error implements error.
func (d Diagnostics) Error() string { return d.Errors().String() }

// String is what Terraform would print, without its wrapping. Warnings about places in
// the configuration that have the same summary are one, with their number.
func (d Diagnostics) String() string {
	var out strings.Builder
	similar := map[string]int{}
	for _, one := range d.Warnings() {
		if one.where != "" {
			similar[one.Summary]++
		}
	}
	shown := map[string]bool{}
	for _, one := range d {
		placed := one.Warning && one.where != ""
		if placed && shown[one.Summary] {
			continue
		}
		out.WriteString(one.String())
		if more := similar[one.Summary] - 1; placed && more > 0 {
			shown[one.Summary] = true
			if more == 1 {
				out.WriteString("\n(and one more similar warning elsewhere)\n")
			} else {
				fmt.Fprintf(&out, "\n(and %d more similar warnings elsewhere)\n", more)
			}
		}
	}
	return out.String()
}

// String is what Terraform would print, without its wrapping.
func (d Diagnostic) String() string {
	severity := "Error"
	if d.Warning {
		severity = "Warning"
	}
	out := "\n" + severity + ": " + d.Summary + "\n\n"
	if d.Address != "" {
		out += "  with " + d.Address + ",\n"
	}
	if d.where != "" {
		out += "  on " + d.where + ":\n" + strings.Join(d.snippet, "\n") + "\n\n"
	}
	if d.Detail != "" {
		out += d.Detail + "\n"
	}
	return out
}

// errorAt is an error about a place in the configuration.
func (c *configuration) errorAt(at hcl.Range, address, summary, detail string) Diagnostic {
	d := Diagnostic{Summary: summary, Detail: detail, Address: address}
	c.place(&d, at)
	return d
}

func (c *configuration) place(d *Diagnostic, at hcl.Range) {
	d.where = fmt.Sprintf("%s line %d", fileName, at.Start.Line)
	for line := at.Start.Line; line <= at.End.Line && line <= len(c.lines); line++ {
		d.snippet = append(d.snippet, fmt.Sprintf("%4d: %s", line, c.lines[line-1]))
	}
}

func (c *configuration) hclDiagnostics(address string, in hcl.Diagnostics) Diagnostics {
	var out Diagnostics
	for _, problem := range in {
		d := Diagnostic{
			Warning: problem.Severity == hcl.DiagWarning, Summary: problem.Summary, Detail: problem.Detail, Address: address,
		}
		if problem.Subject != nil {
			c.place(&d, *problem.Subject)
		}
		out = append(out, d)
	}
	return out
}

// ofProvider are diagnostics of a provider about a block, which may be nil.
func (c *configuration) ofProvider(address string, block *hclsyntax.Block, in []*tfprotov6.Diagnostic) Diagnostics {
	var out Diagnostics
	for _, problem := range in {
		d := Diagnostic{
			Warning: problem.Severity == tfprotov6.DiagnosticSeverityWarning,
			Summary: problem.Summary, Detail: problem.Detail, Address: address,
		}
		if block != nil {
			c.place(&d, placeOf(block, problem.Attribute))
			d.where += fmt.Sprintf(", in %s %q", block.Type, strings.Join(block.Labels, `" "`))
			d.where = strings.ReplaceAll(d.where, `\"`, `"`)
		}
		out = append(out, d)
	}
	return out
}

// placeOf is where a block sets an attribute, or where it begins.
func placeOf(block *hclsyntax.Block, path *tftypes.AttributePath) hcl.Range {
	if path == nil || len(path.Steps()) == 0 {
		return block.DefRange()
	}
	body := block.Body
	for _, step := range path.Steps() {
		name, ok := step.(tftypes.AttributeName)
		if !ok {
			continue
		}
		if a := body.Attributes[string(name)]; a != nil {
			return a.Expr.Range()
		}
		found := false
		for _, inner := range body.Blocks {
			if inner.Type == string(name) {
				body, found = inner.Body, true
				break
			}
		}
		if !found {
			break
		}
	}
	return block.DefRange()
}

// failed is an error of the provider's server itself.
func failed(address string, err error) Diagnostics {
	return Diagnostics{{Summary: "Plugin error", Detail: err.Error(), Address: address}}
}
