package export

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
)

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
