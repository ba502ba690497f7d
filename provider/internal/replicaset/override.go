package replicaset

import (
	"context"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// overrideFields are the attributes values and overrides.
func overrideFields() []attribute.Field[replicaSet] {
	return workload.OverrideFields[replicaSet](
		"`{{CLUSTER_NAME}}` and `{{CLUSTER_URL}}` stand for the cluster's name " +
			"and the address of its API server, as soon as `values` or `overrides` is set. ",
	)
}

// templateOf is what each cluster gets of a set with an override; nil for one without.
func templateOf(ctx context.Context, client *kube.Client, set replicaSet) (*override.Template, error) {
	return override.Of(set, func(name string) (*v1alpha1.WorkOverride, error) {
		o := &v1alpha1.WorkOverride{}
		return o, client.Get(ctx, o, set.Namespace, name)
	})
}

// checkClusters refuses a plan in which a cluster that is selected at present lacks a value.
func checkClusters(ctx context.Context, p crud.Previewing[replicaSet]) {
	if p.Deletes || !workload.Overridden(p.Values) {
		return
	}
	template, err := templateOf(ctx, p.Client, p.Object)
	if err != nil || template == nil {
		return // the hub has refused it in its dry run
	}
	var clusters []string
	for _, ref := range p.Object.Spec.PlacementRefs {
		of, err := chosen(ctx, p.Client, p.Object.Namespace, ref.Name)
		if err != nil {
			return
		}
		clusters = append(clusters, of...)
	}
	workload.CheckClusters(ctx, p, what(p.Object), clusters, func(mc *clusterv1.ManagedCluster) error {
		_, err := template.For(ctx, mc)
		return err
	})
}
