package action

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// orElse says which of the names may have been meant, or which there are.
func orElse(name, what string, names []string) string {
	slices.Sort(names)
	switch near := suggest.Names(name, names); {
	case len(names) == 0:
		return fmt.Sprintf("The hub has no %s at all: is it the right hub?", what)
	case len(near) > 0:
		return fmt.Sprintf("Did you mean %s?", strings.Join(near, ", "))
	default:
		return fmt.Sprintf("There are: %s.", text.List(names, 10))
	}
}

// clusterNames are those of all clusters of the hub; none if they can't be listed.
func clusterNames(ctx context.Context, client *kube.Client) []string {
	all := &clusterv1.ManagedClusterList{}
	if client.List(ctx, all, kube.ListOptions{}) != nil {
		return nil
	}
	names := make([]string, 0, len(all.Items))
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	return names
}

// noCluster is the error about a cluster that the hub does not know.
func noCluster(ctx context.Context, client *kube.Client, name string) error {
	return refuse(fmt.Sprintf("There is no managed cluster %q", name), "The hub %s has no ManagedCluster of this name. %s",
		client.Host(), orElse(name, "managed cluster", clusterNames(ctx, client)))
}

// find reads a cluster that has to exist.
func find(ctx context.Context, client *kube.Client, name string) (*clusterv1.ManagedCluster, error) {
	object := &clusterv1.ManagedCluster{}
	err := client.Get(ctx, object, "", name)
	if kube.IsNotFound(err, name) {
		return nil, noCluster(ctx, client, name)
	}
	return object, err
}
