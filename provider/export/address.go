package export

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
)

// addresses are the names of the exported resources in the configuration, by their
// types and import IDs.
type addresses map[key]string

type key struct{ kind, id string }

// addressesOf gives each resource a name that is unique among those of its type and
// that stays the same as long as the objects do.
func addressesOf(resources []embedded.Resource) addresses {
	named := addresses{}
	taken := map[key]bool{}
	for _, r := range resources {
		name := identifier(r.ID())
		for n := 2; taken[key{r.Type, name}]; n++ {
			name = identifier(r.ID()) + "_" + strconv.Itoa(n)
		}
		taken[key{r.Type, name}] = true
		named[key{r.Type, r.ID()}] = name
	}
	return named
}

// identifier makes a name for a resource of any text.
func identifier(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	name := b.String()
	if !hclsyntax.ValidIdentifier(name) {
		name = "_" + name
	}
	return name
}

// reference is the attribute of another exported resource that a value names.
func (a addresses) reference(value tftypes.Value, at scope) (hclwrite.Tokens, bool) {
	var name string
	if value.IsNull() || !value.Type().Is(tftypes.String) || value.As(&name) != nil {
		return nil, false
	}
	var to key
	switch at.path {
	case "managed_cluster", "managed_clusters":
		to = key{"muster_managed_cluster", name}
	case "cluster_set", "cluster_sets":
		to = key{"muster_managed_cluster_set", name}
	case "namespace":
		to = key{"muster_namespace", name}
	case "placements.name":
		to = key{"muster_placement", at.resource.Identity["namespace"] + "/" + name}
	default:
		return nil, false
	}
	address, ok := a[to]
	if !ok {
		return nil, false
	}
	return hclwrite.TokensForIdentifier(to.kind + "." + address + ".name"), true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
