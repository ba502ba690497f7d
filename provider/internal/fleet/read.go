package fleet

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Read takes a snapshot of the fleet as it is after all that the hub has acknowledged.
// has reports whether the hub has a feature.
func Read(ctx context.Context, client *kube.Client, has Features) (*Snapshot, error) {
	f, err := begin(ctx, client, has)
	if err != nil {
		return nil, err
	}
	list := func(ctx context.Context, list runtime.Object, namespace string) error {
		return client.List(ctx, list, kube.ListOptions{Namespace: namespace})
	}
	if err := f.Take(ctx, list, nil, time.Now()); err != nil {
		return nil, err
	}
	return f, nil
}

// ReadRecent is Read for a caller who does not care for what was written a moment
// ago. Where the hub serves snapshots, it takes a fraction of the time.
func ReadRecent(ctx context.Context, client *kube.Client, has Features) (*Snapshot, error) {
	served, err := has(ctx, client, hubinfo.FleetSnapshot)
	if err != nil {
		return nil, err
	}
	if !served {
		return Read(ctx, client, has)
	}
	f, err := begin(ctx, client, has)
	if err != nil {
		return nil, err
	}
	err = client.GetPath(ctx, hubinfo.SnapshotPath, &f.Snapshot)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return Read(ctx, client, has) // Perhaps the lists answer. If not, they say why in the words that users know.
	}
	f.Now = time.Now()
	return f, err
}

// Features reports whether a hub has a feature.
type Features func(ctx context.Context, client *kube.Client, feature string) (bool, error)

// begin is a snapshot without objects.
func begin(ctx context.Context, client *kube.Client, has Features) (*Snapshot, error) {
	f := &Snapshot{}
	var err error
	if f.Spreads, err = has(ctx, client, hubinfo.SpreadPolicy); err != nil {
		return nil, err
	}
	if f.Options.PreferNoSelect, err = has(ctx, client, hubinfo.PreferNoSelect); err != nil {
		return nil, err
	}
	f.Options.Expressions = scheduling.NewExpressions()
	return f, nil
}
