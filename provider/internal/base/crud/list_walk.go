package crud

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// pageSize is how many objects are read at a time.
const pageSize = 500

// List implements list.ListResource.
func (r *listResource[T]) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	stream.Results = func(push func(list.ListResult) bool) {
		var diags diag.Diagnostics
		f := r.filter(ctx, req.Config, &diags)
		client := r.Hub.Client(&diags)
		if diags.HasError() {
			push(list.ListResult{Diagnostics: diags})
			return
		}
		doing := "list the " + r.kind.Plural
		clusters, err := r.clustersOf(ctx, client, f.set)
		if err != nil {
			hub.AddAPIError(&diags, client, "list the managed clusters of set "+f.set, err)
			push(list.ListResult{Diagnostics: diags})
			return
		}
		w := walk[T]{kind: r.kind, filter: f, clusters: clusters, req: req, push: push}
		take := func(object kube.Object) bool { return w.take(ctx, object) }
		if err := client.Pages(ctx, r.kind.Objects, r.kind.options(f), pageSize, take); err != nil {
			if r.kind.Needs != "" && kube.IsKindNotServed(err) {
				diags.AddWarning("No "+r.kind.Plural+" are listed", fmt.Sprintf(
					"The hub %s does not serve the kind. %s", client.Host(), r.kind.Needs))
			} else {
				hub.AddAPIError(&diags, client, doing, err)
			}
			push(list.ListResult{Diagnostics: diags})
			return
		}
		if text := w.leftOut(); text != "" && w.listed == 0 {
			diags.AddWarning("No "+r.kind.Plural+" are listed", text)
			push(list.ListResult{Diagnostics: diags})
		}
	}
}

// clustersOf are the clusters that their label puts in a set; nil when they do not
// matter.
func (r *listResource[T]) clustersOf(ctx context.Context, client *kube.Client, set string) (map[string]bool, error) {
	if set == "" || r.kind.Cluster == nil {
		return nil, nil
	}
	names := map[string]bool{}
	options := kube.ListOptions{LabelSelector: cluster.ClusterSetLabel + "=" + set}
	err := client.Pages(ctx, &clusterv1.ManagedClusterList{}, options, pageSize, func(object kube.Object) bool {
		names[object.GetName()] = true
		return true
	})
	return names, err
}

// walk is one list on its way through the objects.
type walk[T kube.Object] struct {
	kind     List[T]
	filter   filter
	clusters map[string]bool
	req      list.ListRequest
	push     func(list.ListResult) bool

	listed                       int64
	managed, deleting, generated int
}

// take lists one object, or leaves it out. It returns false when no more are wanted.
func (w *walk[T]) take(ctx context.Context, found kube.Object) bool {
	object, ok := found.(T)
	if !ok || !w.asked(object) {
		return true
	}
	switch {
	case w.kind.generated(object) && !w.filter.asGenerated:
		w.generated++
		return true
	case object.GetDeletionTimestamp() != nil && !w.filter.deleting:
		w.deleting++
		return true
	case w.kind.managed(object) && !w.filter.includeManaged:
		w.managed++
		return true
	}
	w.listed++
	return w.push(w.result(ctx, object)) && w.listed < w.req.Limit
}

// asked reports whether the filters let the object through.
func (w *walk[T]) asked(object T) bool {
	switch {
	case w.kind.Is != nil && !w.kind.Is(object), !w.filter.matches(object):
		return false
	case w.filter.set == "":
		return true
	case w.kind.Cluster != nil:
		return w.clusters[w.kind.Cluster(object)]
	}
	return slices.Contains(w.kind.Sets(object), w.filter.set)
}

// result is what Terraform gets of an object.
func (w *walk[T]) result(ctx context.Context, object T) list.ListResult {
	result := w.req.NewListResult(ctx)
	result.DisplayName = w.kind.title(object)
	model, err := w.kind.Adopt(object)
	if err != nil {
		return list.ListResult{Diagnostics: diag.Diagnostics{diag.NewWarningDiagnostic("Left out: "+result.DisplayName,
			fmt.Sprintf("The object on the hub can't become a resource: %s. Correct it with kubectl to have it "+
				"listed.", err))}}
	}
	result.Diagnostics.Append(result.Identity.Set(ctx, model.Identity())...)
	if w.req.IncludeResource {
		result.Diagnostics.Append(result.Resource.Set(ctx, stored(model))...)
	}
	return result
}

// leftOut tells why nothing is listed although there is something.
func (w *walk[T]) leftOut() string {
	var reasons []string
	for _, r := range []struct {
		count     int
		what, get string
	}{
		{w.managed, "managed in Terraform already", managedAttribute},
		{w.generated, "made and kept by the hub or a controller", generatedAttribute},
		{w.deleting, "being deleted", deletingAttribute},
	} {
		if r.count > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s (%s = true lists them)", r.count, r.what, r.get))
		}
	}
	if len(reasons) == 0 {
		return ""
	}
	return "The hub has some, which are left out: " + strings.Join(reasons, ", ") + "."
}
