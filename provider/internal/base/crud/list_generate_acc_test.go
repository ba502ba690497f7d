package crud_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// Terraform 1.5 and later write the configuration of what import blocks name.
func TestAccTheConfigurationThatTerraformGeneratesPlansEmptyForEveryKind(t *testing.T) {
	acctest.World(t, "blocks")
	p, _ := listedBy(t)
	var imports strings.Builder
	kinds := 0
	for _, kind := range p.Listed() {
		if kind == "muster_access_request" {
			continue // It ends by itself.
		}
		found := mine(t, p, kind, "blocks")
		if len(found) == 0 {
			t.Errorf("there is no %s to import", kind)
			continue
		}
		kinds++
		for i, one := range found {
			fmt.Fprintf(&imports, "import {\n  to = %s.x%d\n  id = %q\n}\n", kind, i, one.ID())
		}
	}
	w := acctest.NewTerraform(t)
	w.Init(imports.String())
	if said, ok := w.Run("plan", "-no-color", "-input=false", "-generate-config-out=generated.tf"); !ok {
		t.Fatal(said)
	}
	adoptsWithoutChange(t, w, kinds)
}

// Terraform 1.14 and later find the objects, too.
func TestAccQueriesGenerateConfigurationThatPlansEmpty(t *testing.T) {
	w := acctest.NewTerraform(t)
	if !knowsQuery(w) {
		t.Skip("this Terraform has no command query")
	}
	acctest.World(t, "queries")
	p, _ := listedBy(t)
	query := &strings.Builder{}
	for _, kind := range p.Listed() {
		if kind == "muster_access_request" {
			continue
		}
		fmt.Fprintf(query, "list %q \"x\" {\n  provider = muster\n  config {\n    name = \"*\"\n  }\n}\n", kind)
	}
	w.Init("provider \"muster\" {}\n")
	if err := os.WriteFile(filepath.Join(w.Dir, "all.tfquery.hcl"), []byte(query.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	said, ok := w.Run("query", "-no-color", "-generate-config-out=generated.tf")
	if !ok {
		t.Fatal(said)
	}
	acctest.Says(t, said, "queries-a (set queries, available)", "queries-a/web (1 object)", "queries/where")
	if strings.Contains(said, "queries-a/made") {
		t.Error("a work is listed that a replica set has made")
	}
	adoptsWithoutChange(t, w, len(p.Listed())-1)
}

// adoptsWithoutChange plans and applies what a workspace imports, and plans again.
func adoptsWithoutChange(t *testing.T, w *acctest.Terraform, least int) {
	t.Helper()
	planned, ok := w.Run("plan", "-no-color", "-input=false", "-out=tfplan")
	counts := regexp.MustCompile(`Plan: (\d+) to import, 0 to add, 0 to change, 0 to destroy\.`).FindStringSubmatch(planned)
	if !ok || counts == nil {
		text, _ := os.ReadFile(filepath.Join(w.Dir, "generated.tf"))
		t.Fatalf("the plan does more than import: %s\n%s", planned, text)
	}
	if imported, err := strconv.Atoi(counts[1]); err != nil || imported < least {
		t.Errorf("%s objects are imported, at least %d are there", counts[1], least)
	}
	if said, ok := w.Run("apply", "-no-color", "-input=false", "tfplan"); !ok {
		t.Fatal(said)
	}
	if said, _ := w.Run("plan", "-no-color", "-input=false"); !strings.Contains(said, "No changes.") {
		t.Errorf("the plan after that says %s", said)
	}
}

func knowsQuery(w *acctest.Terraform) bool {
	said, _ := w.Run("version")
	version := regexp.MustCompile(`Terraform v1\.(\d+)\.`).FindStringSubmatch(said)
	if version == nil {
		return false // OpenTofu
	}
	minor, err := strconv.Atoi(version[1])
	return err == nil && minor >= 14
}

// mine is what is listed of a kind and belongs to the world of this name.
func mine(t *testing.T, p *embedded.Provider, kind, world string) []embedded.Resource {
	t.Helper()
	var found []embedded.Resource
	for listed, err := range p.ListResources(t.Context(), kind, nil, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(listed.ID(), world) {
			found = append(found, listed)
		}
	}
	return found
}
