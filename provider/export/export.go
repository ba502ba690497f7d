// Package export writes what a hub has as Terraform configuration: resources, the
// blocks that import them, and the provider. It is for Terraform without
// `terraform query`, and for OpenTofu.
package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
)

// Options say what is exported, and where to.
type Options struct {
	// Dir is the folder for the files. It is created if it does not exist.
	Dir string
	// Kinds are the resource types, without "muster_"; the Kinds that DefaultKinds
	// names if there are none.
	Kinds []string
	// ClusterSet, Selector and Namespace narrow the choice, as the filters of the list
	// resources do. Kinds that do not have a filter are left out.
	ClusterSet, Selector, Namespace string
	// Provider are the attributes of the provider block.
	Provider map[string]string
}

// Exported is one kind and how many resources of it were written.
type Exported struct {
	Kind  string
	Count int
}

// prefix begins the types of the provider's resources.
const prefix = "muster_"

// DefaultKinds are those that a hub's configuration consists of. Bootstrap tokens are
// not among them: an import puts the token into the state. Nor are access requests,
// which end within hours.
func DefaultKinds(p *embedded.Provider) []string {
	var kinds []string
	for _, kind := range p.Listed() {
		switch kind := strings.TrimPrefix(kind, prefix); kind {
		case "bootstrap_token", "access_request":
		default:
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Write writes the files and tells what is in them. It overwrites nothing.
func Write(ctx context.Context, p *embedded.Provider, o Options) ([]Exported, error) {
	resources, err := read(ctx, p, o)
	if err != nil {
		return nil, err
	}
	files, exported, err := render(p, resources)
	if err != nil {
		return nil, err
	}
	if len(exported) == 0 {
		return nil, nil
	}
	files["providers.tf"] = providers(o.Provider)
	files["README.md"] = readme(exported)
	return exported, save(o.Dir, files)
}

// render is the configuration of resources, by file, and what is in it.
func render(
	p *embedded.Provider, resources []embedded.Resource,
) (files map[string][]byte, exported []Exported, err error) {
	r := renderer{addresses: addressesOf(resources)}
	byKind := map[string]*hclwrite.File{}
	counts := map[string]int{}
	imports := hclwrite.NewEmptyFile()
	imports.Body().AppendUnstructuredTokens(comments("Remove this file after the apply."))
	for _, resource := range resources {
		schema, err := p.Schema(resource.Type)
		if err != nil {
			return nil, nil, err
		}
		name := r.addresses[key{resource.Type, resource.ID()}]
		block, err := r.block(schema, resource, name)
		if err != nil {
			return nil, nil, fmt.Errorf("write %s %s: %w", resource.Type, resource.ID(), err)
		}
		kind := strings.TrimPrefix(resource.Type, prefix)
		file, ok := byKind[kind]
		if !ok {
			file = hclwrite.NewEmptyFile()
			byKind[kind] = file
		} else {
			file.Body().AppendNewline()
		}
		file.Body().AppendBlock(block)
		counts[kind]++
		imports.Body().AppendNewline()
		imported := imports.Body().AppendNewBlock("import", nil).Body()
		imported.SetAttributeRaw("to", hclwrite.TokensForIdentifier(resource.Type+"."+name))
		imported.SetAttributeValue("id", cty.StringVal(resource.ID()))
	}
	files = map[string][]byte{"imports.tf": hclwrite.Format(imports.Bytes())}
	for _, kind := range sortedKeys(byKind) {
		files[kind+".tf"] = hclwrite.Format(byKind[kind].Bytes())
		exported = append(exported, Exported{Kind: kind, Count: counts[kind]})
	}
	return files, exported, nil
}

func providers(attributes map[string]string) []byte {
	file := hclwrite.NewEmptyFile()
	required := file.Body().AppendNewBlock("terraform", nil).Body()
	required.SetAttributeValue("required_version", cty.StringVal(">= 1.11"))
	required.AppendNewBlock("required_providers", nil).Body().
		SetAttributeValue("muster", cty.ObjectVal(map[string]cty.Value{"source": cty.StringVal("muster-fleet/muster")}))
	file.Body().AppendNewline()
	provider := file.Body().AppendNewBlock("provider", []string{"muster"}).Body()
	for _, name := range sortedKeys(attributes) {
		provider.SetAttributeValue(name, cty.StringVal(attributes[name]))
	}
	return hclwrite.Format(file.Bytes())
}

func readme(exported []Exported) []byte {
	var b bytes.Buffer
	total := 0
	fmt.Fprint(&b, "# A hub as Terraform configuration\n\nWritten by `muster export --hcl`:\n\n")
	for _, e := range exported {
		fmt.Fprintf(&b, "- %d `%s%s`\n", e.Count, prefix, e.Kind)
		total += e.Count
	}
	fmt.Fprintf(&b, `
Next, with Terraform or OpenTofu:

    terraform init
    terraform plan     # %d to import, 0 to add, 0 to change, 0 to destroy
    terraform apply
    rm imports.tf

The apply changes nothing on the hub: it only records the objects in the state. From
then on a change of the files is a change of the hub.

Values that may be secret are not in these files; comments say where. The agents
(`+"`muster_klusterlet`"+`) are not here either, as the hub does not know how to reach the clusters.
`, total)
	return b.Bytes()
}

// save writes all files or, if one of them exists, none.
func save(dir string, files map[string][]byte) error {
	var there []string
	for _, name := range sortedKeys(files) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			there = append(there, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for files that exist: %w", err)
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("%s has files of these names already: %s; nothing was written: choose another folder with "+
			"--dir, or remove them", dir, strings.Join(there, ", "))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder for the configuration: %w", err)
	}
	for _, name := range sortedKeys(files) {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		_, err = file.Write(files[name])
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
	}
	return nil
}

// comments are lines of comment.
func comments(lines ...string) hclwrite.Tokens {
	var tokens hclwrite.Tokens
	for _, line := range lines {
		tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenComment, Bytes: []byte("# " + line + "\n")})
	}
	return tokens
}
