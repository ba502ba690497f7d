package controlplane

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
)

const (
	// reclaimEvery is how often the file of an embedded store is looked at.
	reclaimEvery = 10 * time.Minute
	// reclaimPart is the part of the quota above which the file is made smaller, when
	// less than half of it is in use: the quota is for the file, which never gets smaller
	// by itself.
	reclaimPart = 0.5
)

// keepRoom gives room that was freed in an embedded store back to its quota, until ctx
// ends.
func (s *storeClient) keepRoom(ctx context.Context) {
	for {
		if err := s.reclaim(ctx, reclaimPart); err != nil && ctx.Err() == nil {
			logging.FromContext(ctx).Warn("the store's file can't be made smaller", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reclaimEvery):
		}
	}
}

// reclaim makes the file smaller when it takes more than a part of the quota and most of
// it is free. The store answers nobody meanwhile, some seconds for each GiB in use. Then
// it takes writes again, if it took none because its quota was used up.
func (s *storeClient) reclaim(ctx context.Context, part float64) error {
	before, err := s.Size(ctx)
	if err != nil {
		return err
	}
	if float64(before.File) <= part*float64(before.Quota) || before.InUse > before.File/2 {
		return nil
	}
	for _, endpoint := range s.Endpoints() {
		if _, err := s.Defragment(ctx, endpoint); err != nil {
			return fmt.Errorf("defragment etcd at %s: %w", endpoint, err)
		}
	}
	if _, err := s.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("let etcd take writes again: %w", err)
	}
	after, err := s.Size(ctx)
	if err != nil {
		return err
	}
	logging.FromContext(ctx).Info("the store's file was made smaller",
		"beforeMiB", before.File>>20, "afterMiB", after.File>>20, "quotaMiB", after.Quota>>20)
	return nil
}
