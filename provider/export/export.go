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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// read finds what is to be exported, in the order of types and import IDs.
func read(ctx context.Context, p *embedded.Provider, o Options) ([]embedded.Resource, error) {
	kinds := o.Kinds
	if len(kinds) == 0 {
		kinds = DefaultKinds(p)
	}
	var found []embedded.Resource
	for _, kind := range kinds {
		resource := prefix + strings.TrimPrefix(kind, prefix)
		if !slices.Contains(p.Listed(), resource) {
			return nil, unknownKind(p, kind)
		}
		config, ok := o.filters(resource, p.Filters(resource))
		if !ok {
			if len(o.Kinds) > 0 {
				return nil, fmt.Errorf("%s have neither a namespace nor a cluster set to be chosen by: leave the "+
					"filter or the kind out", kind)
			}
			continue
		}
		for listed, err := range p.ListResources(ctx, resource, config, 0) {
			if err != nil {
				return nil, err
			}
			found = append(found, listed)
		}
	}
	if len(o.Kinds) == 0 {
		found = withNeededNamespaces(found)
	}
	slices.SortFunc(found, func(a, b embedded.Resource) int {
		return strings.Compare(a.Type+" "+a.ID(), b.Type+" "+b.ID())
	})
	return found, nil
}

func unknownKind(p *embedded.Provider, kind string) error {
	var names []string
	for _, name := range p.Listed() {
		names = append(names, strings.TrimPrefix(name, prefix))
	}
	hint := ""
	if strings.TrimPrefix(kind, prefix) == "klusterlet" {
		hint = ". A klusterlet is in its cluster, which the hub does not know how to reach: import it with terraform " +
			"import"
	}
	return fmt.Errorf("there is no kind %q to export: there are %s%s", kind, strings.Join(names, ", "), hint)
}

// filters are the configuration of a kind's list. ok is false if the kind can't be
// chosen in the way that is asked for. Namespaces follow from what is in them.
func (o Options) filters(resource string, has []string) (config map[string]any, ok bool) {
	config = map[string]any{}
	if o.Selector != "" && resource != "muster_namespace" {
		config["label_selector"] = o.Selector
	}
	if o.ClusterSet != "" {
		switch {
		case slices.Contains(has, "cluster_set"):
			config["cluster_set"] = o.ClusterSet
		case resource == "muster_managed_cluster_set":
			config["name"] = o.ClusterSet
		case resource != "muster_namespace":
			return nil, false
		}
	}
	if o.Namespace != "" {
		switch {
		case slices.Contains(has, "namespace"):
			config["namespace"] = o.Namespace
		case slices.Contains(has, "managed_cluster"):
			config["managed_cluster"] = o.Namespace
		case resource == "muster_namespace":
			config["name"] = o.Namespace
		default:
			return nil, false
		}
	}
	return config, true
}

// withNeededNamespaces leaves out the namespaces that hold nothing else that is
// exported: on a hub that is an ordinary cluster most of them have nothing to do with
// the fleet.
func withNeededNamespaces(found []embedded.Resource) []embedded.Resource {
	needed := map[string]bool{}
	for _, r := range found {
		needed[r.Identity["namespace"]] = true
	}
	return slices.DeleteFunc(found, func(r embedded.Resource) bool {
		return r.Type == "muster_namespace" && !needed[r.Identity["name"]]
	})
}

// render is the configuration of resources, by file, and what is in it.
func render(
	p *embedded.Provider, resources []embedded.Resource,
) (files map[string][]byte, exported []Exported, err error) {
	addresses := addressesOf(resources)
	byKind := map[string]*hclwrite.File{}
	counts := map[string]int{}
	imports := hclwrite.NewEmptyFile()
	imports.Body().AppendUnstructuredTokens(comments("Remove this file after the apply."))
	for _, resource := range resources {
		schema, err := p.Schema(resource.Type)
		if err != nil {
			return nil, nil, err
		}
		name := addresses[key{resource.Type, resource.ID()}]
		block, err := addresses.block(schema, resource, name)
		if err != nil {
			return nil, nil, fmt.Errorf("write %s %s: %w", resource.Type, resource.ID(), err)
		}
		kind := strings.TrimPrefix(resource.Type, prefix)
		if counts[kind]++; byKind[kind] == nil {
			byKind[kind] = hclwrite.NewEmptyFile()
		} else {
			byKind[kind].Body().AppendNewline()
		}
		byKind[kind].Body().AppendBlock(block)
		imports.Body().AppendNewline()
		imported := imports.Body().AppendNewBlock("import", nil).Body()
		imported.SetAttributeRaw("to", hclwrite.TokensForIdentifier(resource.Type+"."+name))
		imported.SetAttributeValue("id", cty.StringVal(resource.ID()))
	}
	files = map[string][]byte{"imports.tf": hclwrite.Format(imports.Bytes())}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
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
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
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
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
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
	for _, name := range names {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			_, err = file.Write(files[name])
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
	}
	return nil
}
