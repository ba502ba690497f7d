package provider_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// documented are the kinds of things that the provider has, by their folders in docs
// and examples: their names, and what an example is called.
func documented(t *testing.T) map[string]struct {
	names   []string
	example string
} {
	t.Helper()
	schemas, err := acctest.ConfiguredServer(t, "http://127.0.0.1:1").GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	testkit.Must(t, err)
	type kind = struct {
		names   []string
		example string
	}
	return map[string]kind{
		"resources":           {slices.Sorted(maps.Keys(schemas.ResourceSchemas)), "resource.tf"},
		"data-sources":        {slices.Sorted(maps.Keys(schemas.DataSourceSchemas)), "data-source.tf"},
		"ephemeral-resources": {slices.Sorted(maps.Keys(schemas.EphemeralResourceSchemas)), "ephemeral-resource.tf"},
		"list-resources":      {slices.Sorted(maps.Keys(schemas.ListResourceSchemas)), "list-resource.tfquery.hcl"},
		"actions":             {slices.Sorted(maps.Keys(schemas.ActionSchemas)), "action.tf"},
		"functions":           {slices.Sorted(maps.Keys(schemas.Functions)), "function.tf"},
	}
}

// Each thing that the provider has is shown by an example and described by a page, and
// there are no pages of others.
func TestEverythingHasAnExampleAndAPage(t *testing.T) {
	for folder, kind := range documented(t) {
		var pages []string
		for _, name := range kind.names {
			page := strings.TrimPrefix(name, "muster_") + ".md"
			pages = append(pages, page)
			example, err := os.ReadFile(filepath.Join("../examples", folder, name, kind.example))
			if err != nil || len(example) == 0 {
				t.Errorf("%s has no example: %v", name, err)
				continue
			}
			text, err := os.ReadFile(filepath.Join("../docs", folder, page))
			if err != nil {
				t.Errorf("%s has no page: run hack/generate-docs.sh: %v", name, err)
				continue
			}
			if !strings.Contains(string(text), strings.TrimSpace(string(example))) {
				t.Errorf("the page of %s does not show its example: run hack/generate-docs.sh", name)
			}
		}
		found, err := filepath.Glob(filepath.Join("../docs", folder, "*"))
		testkit.Must(t, err)
		for _, path := range found {
			if !slices.Contains(pages, filepath.Base(path)) {
				t.Errorf("%s is about nothing that the provider has", path)
			}
		}
	}
}

// What can be imported says how, and nothing else does.
func TestImportsAreDocumented(t *testing.T) {
	for _, create := range provider.New("test")().Resources(t.Context()) {
		made := create()
		var metadata resource.MetadataResponse
		made.Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "muster"}, &metadata)
		name := metadata.TypeName
		_, importable := made.(resource.ResourceWithImportState)
		_, err := os.Stat(filepath.Join("../examples/resources", name, "import.sh"))
		page, _ := os.ReadFile(filepath.Join("../docs/resources", strings.TrimPrefix(name, "muster_")+".md"))
		if says := strings.Contains(string(page), "\n## Import\n"); (err == nil) != importable || says != importable {
			t.Errorf("%s: it can be imported: %v, there is an import.sh: %v, and its page tells: %v", name, importable, err == nil, says)
		}
	}
}

// The registry shows pages of certain folders, with a front matter, up to a size.
func TestPagesAreAsTheRegistryWantsThem(t *testing.T) {
	const most = 500_000
	folders := slices.Sorted(maps.Keys(documented(t)))
	known := append([]string{"guides", "images", "scale"}, folders...) // it shows no page of the last two
	entries, err := os.ReadDir("../docs")
	testkit.Must(t, err)
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains(known, entry.Name()) {
			t.Errorf("the registry does not know docs/%s", entry.Name())
		}
	}
	pages := []string{"../docs/index.md"}
	for _, folder := range append(folders, "guides") {
		found, err := filepath.Glob(filepath.Join("../docs", folder, "*.md"))
		testkit.Must(t, err)
		pages = append(pages, found...)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		testkit.Must(t, err)
		front, _, closed := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
		var matter struct {
			PageTitle   string `json:"page_title"`
			Description string `json:"description"`
		}
		if err := yaml.Unmarshal([]byte(front), &matter); err != nil || !closed || matter.PageTitle == "" || matter.Description == "" {
			t.Errorf("%s has no front matter with page_title and description: %v", path, err)
		}
		if len(text) > most {
			t.Errorf("%s has %d bytes, and the registry takes %d", path, len(text), most)
		}
	}
}

// A release has what the registry looks for, under the names that it looks for.
func TestReleasesAreAsTheRegistryWantsThem(t *testing.T) {
	var manifest struct {
		Version  int `json:"version"`
		Metadata struct {
			Protocols []string `json:"protocol_versions"`
		} `json:"metadata"`
	}
	text, err := os.ReadFile("../terraform-registry-manifest.json")
	testkit.Must(t, err)
	testkit.Must(t, yaml.UnmarshalStrict(text, &manifest))
	if manifest.Version != 1 || !slices.Equal(manifest.Metadata.Protocols, []string{"6.0"}) {
		t.Errorf("the manifest says %+v, and the provider speaks protocol 6.0", manifest)
	}

	type file struct {
		Glob string `json:"glob"`
		Name string `json:"name_template"`
	}
	var release struct {
		Builds []struct {
			ID, Main, Binary string
			Env, Goos        []string
		}
		Archives []struct {
			ID      string
			IDs     []string
			Formats []string
			Name    string `json:"name_template"`
		}
		Checksum struct {
			Name      string `json:"name_template"`
			Algorithm string
			Extra     []file `json:"extra_files"`
		}
		Signs []struct {
			Artifacts, Cmd, Signature string
		}
		Release struct {
			Extra []file `json:"extra_files"`
		}
	}
	text, err = os.ReadFile("../.goreleaser.yml")
	testkit.Must(t, err)
	testkit.Must(t, yaml.Unmarshal(text, &release))
	const program = "terraform-provider-muster"
	for _, build := range release.Builds {
		if build.ID == "provider" && (build.Main != "." || build.Binary != program+"_v{{ .Version }}") {
			t.Errorf("the provider is built as %+v", build)
		}
	}
	for _, archive := range release.Archives {
		if archive.ID == "provider" && (archive.Name != program+"_{{ .Version }}_{{ .Os }}_{{ .Arch }}" || !slices.Equal(archive.Formats, []string{"zip"}) || !slices.Equal(archive.IDs, []string{"provider"})) {
			t.Errorf("the provider's archive is %+v", archive)
		}
	}
	want := []file{{"terraform-registry-manifest.json", program + "_{{ .Version }}_manifest.json"}}
	if c := release.Checksum; c.Name != program+"_{{ .Version }}_SHA256SUMS" || c.Algorithm != "sha256" || !slices.Equal(c.Extra, want) || !slices.Equal(release.Release.Extra, want) {
		t.Errorf("the checksums are %+v, and the release adds %+v", c, release.Release.Extra)
	}
	signed := false // with GPG, whose signature is named as the registry wants it by default
	for _, sign := range release.Signs {
		signed = signed || sign.Artifacts == "checksum" && sign.Cmd == "" && sign.Signature == ""
	}
	if len(release.Builds) == 0 || len(release.Archives) == 0 || !signed {
		t.Errorf("builds %v, archives %v, signed is %+v", release.Builds, release.Archives, release.Signs)
	}
}
