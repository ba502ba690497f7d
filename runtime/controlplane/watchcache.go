package controlplane

import (
	"fmt"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// setWatchCacheGates turns off two features of the API server's watch caches,
// which go together. It has an effect on caches that are made afterwards. The
// gates are Kubernetes' own and hold for the whole process, as all its gates do.
//
// ListFromCacheSnapshot keeps every earlier version of an object for five to ten
// minutes, until the store is compacted, so that all pages of a list come from
// memory. A hub's objects change all the time, each cluster's lease once a minute,
// and it is hardly ever listed in pages: controllers and agents watch. Without it
// the second and later pages of a list are read from the store.
//
// DetectCacheInconsistency lists every kind from the cache and from the store
// every five minutes and compares names and versions: a quarter of the CPU while
// it runs with 10,000 clusters. All that it does with a difference is to log it
// and to stop serving from snapshots, which are off. The risk: if a bug
// made a cache miss an event, no log would say so. A restart of the server makes
// all caches from the store, with the check and without.
func setWatchCacheGates() error {
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.ListFromCacheSnapshot):    false,
		string(features.DetectCacheInconsistency): false,
	})
	if err != nil {
		return fmt.Errorf("set the feature gates of the watch caches: %w", err)
	}
	return nil
}
