package provider_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

func TestEveryResourceIsInTheMatrix(t *testing.T) {
	in := map[string]string{}
	for resource := range elsewhere() {
		in[resource] = "elsewhere"
	}
	for _, r := range matrix("n") {
		in[r.resource] = "here"
	}
	for _, name := range resourceNames(t) {
		if in[name] == "" {
			t.Errorf("%s is not in the matrix: add a row in matrix_test.go", name)
		}
		delete(in, name)
	}
	for name := range in {
		t.Errorf("%s is in the matrix, and no resource", name)
	}
}

// resourceNames are the resources of the provider.
func resourceNames(t *testing.T) []string {
	t.Helper()
	var p frameworkprovider.Provider = provider.New("test")()
	var names []string
	for _, make := range p.Resources(t.Context()) {
		var metadata resource.MetadataResponse
		make().Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "muster"}, &metadata)
		names = append(names, metadata.TypeName)
	}
	return names
}

const noChanges = "No changes."

// TestAccMatrix takes all resources through their life side by side.
func TestAccMatrix(t *testing.T) {
	w, o := acctest.NewTerraform(t), acctest.Someone(t)
	const n = "matrix"
	rows := matrix(n)
	config := func(value string) string { return matrixConfig(n, rows, strconv.Quote(value), "") }
	apply := func(what, config string) string {
		t.Helper()
		said, ok := w.Apply(config)
		if !ok {
			t.Fatalf("%s: %s", what, acctest.Excerpt(said))
		}
		if planned := w.Plan(config); !strings.Contains(planned, noChanges) {
			t.Errorf("%s: the plan after it is not empty: %s", what, planned)
		}
		return said
	}
	apply("created", config("one"))
	if *record {
		recordStates(t, w.Dir)
	}
	kept := map[string][]string{}
	for _, r := range rows {
		kept[r.resource] = nil
	}
	kept["muster_bootstrap_token"] = []string{"token_id", "token", "expires_at"}
	plansFromRecordedStates(t, w, config("one"), kept)
	changed := w.Plan(config("three"))
	for _, r := range rows {
		if strings.Contains(r.body, "@value") && !strings.Contains(changed, r.address()+" will be updated in-place") {
			t.Errorf("changed: %s is not updated in place: %s", r.resource, changed)
		}
	}
	apply("changed", config("three"))
	apply("changed back", config("one"))

	t.Run("edited outside", func(t *testing.T) {
		for _, r := range rows {
			if r.edit != "" {
				o.Patch(kube.Fresh(r.object), r.namespace, r.name, r.edit)
			}
		}
		planned := w.Plan(config("one"))
		for _, r := range rows {
			if r.edit != "" && !strings.Contains(planned, r.address()+" will be updated in-place") {
				t.Errorf("%s: the plan shows no drift: %s", r.resource, planned)
			}
		}
		apply("healed", config("one"))
	})
	t.Run("foreign field manager", func(t *testing.T) {
		// A resource is not planned if that of a name in it fails.
		literal := strings.NewReplacer("muster_namespace.x.name", `"`+n+`-n"`, "muster_access_role.x.name", `"`+n+`-r"`, "muster_managed_cluster.x.name", `"`+n+`-c"`)
		foreignManager(t, w, o, rows, func(more string) string { return literal.Replace(matrixConfig(n, rows, `"one"`, more)) })
		apply("taken over", config("one"))
	})
	t.Run("import", func(t *testing.T) { imports(t, rows) })
	t.Run("deleted outside", func(t *testing.T) {
		for i := range rows { // the namespace after what is in it
			if r := rows[len(rows)-1-i]; r.object != nil && r.resource != "muster_namespace" && r.resource != "muster_cluster_acceptance" {
				o.Remove(kube.Fresh(r.object), r.namespace, r.name)
			}
		}
		planned := w.Plan(config("one"))
		for _, r := range rows {
			if r.object != nil && r.resource != "muster_namespace" && !strings.Contains(planned, r.address()+" will be created") {
				t.Errorf("%s: it is not created again: %s", r.resource, acctest.Excerpt(planned))
			}
		}
		apply("created again", config("one"))
	})
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	for _, r := range rows {
		if r.object != nil && r.resource != "muster_namespace" && o.Exists(kube.Fresh(r.object), r.namespace, r.name) {
			t.Errorf("%s is still there after it was destroyed", r.resource)
		}
	}
}

// foreignManager has somebody else take the labels: with force_conflicts = false the
// plan says whose they are, and without it they are taken over with a warning.
func foreignManager(t *testing.T, w *acctest.Terraform, o *acctest.Outsider, rows []row, config func(more string) string) {
	t.Helper()
	var taken []row
	for _, r := range rows {
		if r.object != nil && strings.Contains(r.body, " labels ") {
			foreign(o, r)
			taken = append(taken, r)
		}
	}
	// A plan that has no answer to its dry run in time goes on without: then the next has.
	testkit.EventuallyThat(t, "a plan without force_conflicts", func() error {
		refused := w.Plan(config("force_conflicts = false"))
		if !strings.Contains(refused, `"kubectl-edit"`) {
			return fmt.Errorf("it does not say who has the fields: %s", acctest.Excerpt(refused))
		}
		for _, r := range taken {
			if !regexp.MustCompile(`Error: Fields of another owner: [^│]*? with ` + regexp.QuoteMeta(r.address())).
				MatchString(strings.ReplaceAll(refused, "│ ", "")) {
				return fmt.Errorf("%s: it takes another's fields: %s", r.resource, acctest.Excerpt(refused))
			}
		}
		return nil
	})
	testkit.EventuallyThat(t, "a plan that takes fields over", func() error {
		if warned := w.Plan(config("")); !strings.Contains(warned, "Takes fields from another owner") {
			return fmt.Errorf("nobody is warned: %s", acctest.Excerpt(warned))
		}
		return nil
	})
}

// imports imports all rows into states of their own, whose plans must be empty.
func imports(t *testing.T, rows []row) {
	t.Helper()
	for _, byIdentity := range []bool{false, true} {
		if byIdentity && !atLeast(t, 1, 12) {
			continue // The protocol's part is tested in TestImportByIdentity.
		}
		blocks, count := matrixImports(rows, byIdentity)
		var importable []row
		for _, r := range rows {
			if r.id != "" {
				importable = append(importable, r)
			}
		}
		config := matrixConfig("matrix", importable, `"one"`, "")
		if len(importable) != count {
			t.Fatal("not all are imported")
		}
		planned := acctest.NewTerraform(t).Plan(blocks + config)
		if want := fmt.Sprintf("Plan: %d to import, 0 to add, 0 to change, 0 to destroy.", count); !strings.Contains(planned, want) {
			t.Errorf("by identity: %v: the plan is not %q: %s", byIdentity, want, planned)
		}
	}
}

// atLeast reports whether the Terraform or OpenTofu of the tests has this version.
func atLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	program := os.Getenv("TF_ACC_TERRAFORM_PATH")
	if program == "" {
		program = "terraform"
	}
	out, err := exec.Command(program, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`v(\d+)\.(\d+)`).FindStringSubmatch(string(out))
	if found == nil {
		t.Fatalf("no version in %s", out)
	}
	is, _ := strconv.Atoi(found[1])
	then, _ := strconv.Atoi(found[2])
	return is > major || (is == major && then >= minor)
}

// What is not known while planning is not missing.
func TestAccMatrixWithUnknownInputs(t *testing.T) {
	w := acctest.NewTerraform(t)
	const n = "matrix-late"
	late := "resource \"terraform_data\" \"late\" {\n  input = \"one\"\n}\n\n" + matrixConfig(n, matrix(n), "terraform_data.late.output", "")
	acctest.Says(t, w.Plan(late), fmt.Sprintf("Plan: %d to add, 0 to change, 0 to destroy.", len(matrix(n))+1))
	if said, ok := w.Apply(late); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	if planned := w.Plan(late); !strings.Contains(planned, noChanges) {
		t.Errorf("the plan after it is not empty: %s", planned)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}
