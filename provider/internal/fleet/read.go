package fleet

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Read takes a snapshot of the fleet. has reports whether the hub has a
// feature.
func Read(ctx context.Context, client *kube.Client, has func(ctx context.Context, client *kube.Client, feature string) (bool, error)) (*Snapshot, error) {
	f := &Snapshot{}
	var err error
	if f.Spreads, err = has(ctx, client, hubinfo.SpreadPolicy); err != nil {
		return nil, err
	}
	if f.Options.PreferNoSelect, err = has(ctx, client, hubinfo.PreferNoSelect); err != nil {
		return nil, err
	}
	f.Options.Expressions = scheduling.NewExpressions()
	list := func(ctx context.Context, list runtime.Object, namespace string) error {
		return client.List(ctx, list, kube.ListOptions{Namespace: namespace})
	}
	if err := f.Take(ctx, list, nil, time.Now()); err != nil {
		return nil, err
	}
	return f, nil
}
