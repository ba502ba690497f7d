package text_test

import (
	"slices"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

func TestCut(t *testing.T) {
	tests := map[string]struct {
		s    string
		max  int
		want string
	}{
		"short enough":         {"abc", 3, "abc"},
		"too long":             {"abcdefgh", 6, "abc..."},
		"not half a rune":      {"aéééé", 7, "aé..."},
		"no room for anything": {"abcdef", 2, ".."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := text.Cut(tt.s, tt.max); got != tt.want || len(got) > tt.max {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestList(t *testing.T) {
	tests := map[string]struct {
		items []string
		max   int
		want  string
		first []string
	}{
		"none":        {nil, 2, "", nil},
		"all":         {[]string{"a", "b"}, 2, "a, b", []string{"a", "b"}},
		"one more":    {[]string{"a", "b", "c"}, 2, "a, b and 1 more", []string{"a", "b", "and 1 more"}},
		"most hidden": {[]string{"a", "b", "c", "d"}, 1, "a and 3 more", []string{"a", "and 3 more"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tt.items)
			if got := text.List(tt.items, tt.max); got != tt.want {
				t.Errorf("List: got %q, want %q", got, tt.want)
			}
			if got := text.First(tt.items, tt.max); !slices.Equal(got, tt.first) {
				t.Errorf("First: got %q, want %q", got, tt.first)
			}
			if !slices.Equal(tt.items, before) {
				t.Errorf("the items have become %q", tt.items)
			}
		})
	}
}

func TestLine(t *testing.T) {
	for s, want := range map[string]string{
		"":                        "",
		"plain ünïcode 漢":         "plain ünïcode 漢",
		"two\r\nlines\tand a tab": "two  lines and a tab",
		"\x1b[2Jroot#\u202e":      " [2Jroot# ",
	} {
		if got := text.Line(s); got != want {
			t.Errorf("Line(%q) = %q, want %q", s, got, want)
		}
	}
}
