package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unclear are words that a reader has to learn here, with those that the field has for
// the same. An identifier has none of them.
var unclear = map[string]string{
	"anew":      "again",
	"foresee":   "predict",
	"foresight": "prediction",
	"heed":      "follow",
	"impatient": "the limit, such as withTimeout",
	"lookout":   "watch",
	"outlast":   "survive, wait",
	"sighting":  "observation",
	"tell":      "report, log, warn or describe",
	"told":      "reported",
	"whoever":   "user, author",
}

// Where one word of an identifier ends and another begins, as in addOn|CSR and CSR|Of.
var (
	lowerUpper = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	upperLower = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// TestIdentifiers looks for unclear words in the names that the code gives.
func TestIdentifiers(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && (name == "bin" || name != ".." && strings.HasPrefix(name, ".")) && path != root {
			return filepath.SkipDir
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		files++
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if id, ok := node.(*ast.Ident); ok && !seen[id.Name] {
				seen[id.Name] = true
				for _, unclear := range unclearIn(id.Name) {
					t.Errorf("%s: the name %s has an unclear word: %s", file, id.Name, unclear)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files: %v", files, err)
	}
}

// unclearIn are the unclear words of an identifier, each with what to write instead.
func unclearIn(identifier string) (found []string) {
	apart := upperLower.ReplaceAllString(lowerUpper.ReplaceAllString(identifier, "$1 $2"), "$1 $2")
	for _, w := range strings.Fields(strings.ToLower(apart)) {
		for _, stem := range []string{w, strings.TrimSuffix(w, "s"), strings.TrimSuffix(w, "ing"), strings.TrimSuffix(w, "er")} {
			if better := unclear[stem]; better != "" {
				found = append(found, w+", better "+better)
				break
			}
		}
	}
	return found
}

func TestUnclearIn(t *testing.T) {
	for identifier, want := range map[string]string{
		"tell":            "tell, better report, log, warn or describe",
		"tellsNothing":    "tells, better report, log, warn or describe",
		"newLookout":      "lookout, better watch",
		"impatientClient": "impatient, better the limit, such as withTimeout",
		"LastSightings":   "sightings, better observation",
		"tellerOf":        "teller, better report, log, warn or describe",
		"satellite":       "",
		"intelligence":    "",
		"addOnCSR":        "",
		"ofANewDecision":  "",
		"booksellers":     "",
	} {
		if got := strings.Join(unclearIn(identifier), "; "); got != want {
			t.Errorf("%s has %q, want %q", identifier, got, want)
		}
	}
}
