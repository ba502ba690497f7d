package action

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

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
	return namesIn(ctx, client, &clusterv1.ManagedClusterList{}, kube.ListOptions{})
}

// namesIn are the names of objects, with their namespaces where these differ; none if they
// can't be listed.
func namesIn(ctx context.Context, client *kube.Client, list runtime.Object, options kube.ListOptions) []string {
	names := []string{}
	if client.List(ctx, list, options) != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(kube.Object); ok && (object.GetNamespace() == "" || options.Namespace != "") {
			names = append(names, object.GetName())
		} else if ok {
			names = append(names, object.GetNamespace()+"/"+object.GetName())
		}
		return nil
	})
	return names
}

// noCluster is the error about a cluster that the hub does not know.
func noCluster(ctx context.Context, client *kube.Client, name string) error {
	return refuse(fmt.Sprintf("There is no managed cluster %q", name), "The hub %s has no ManagedCluster of this "+
		"name. %s",
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
