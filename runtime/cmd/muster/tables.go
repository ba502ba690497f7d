package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

// tables prints rows in columns.
type tables struct{ w *tabwriter.Writer }

func newTables(out io.Writer) tables { return tables{tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)} }

// row prints a row. An empty cell shows as a dash; without cells it is an empty line.
func (t tables) row(cells ...string) {
	shown := make([]string, 0, len(cells))
	for _, c := range cells {
		shown = append(shown, cell(c))
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(shown, "\t"))
}

func (t tables) flush() error { return t.w.Flush() }

// cell is a text as a table shows it: on one line, and without characters that a
// terminal would obey. Much of it is written by the clusters' agents.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// shortened is as much of a message as a table shows.
func shortened(s string) string { return text.Cut(s, 300) }
