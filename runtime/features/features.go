// Package features names the feature gates of hubs and agents: those of Open
// Cluster Management, with its names and defaults, so that a line of flags or a
// ClusterManager's configuration carries over.
package features

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
)

// Gates of the hub.
const (
	// DefaultClusterSet keeps the sets "default" and "global" and puts clusters
	// without a set into the former.
	DefaultClusterSet featuregate.Feature = "DefaultClusterSet"
	// ResourceCleanup deletes the add-ons and works of a deleted cluster.
	ResourceCleanup featuregate.Feature = "ResourceCleanup"
	// ManagedClusterAutoApproval accepts each new cluster once, and approves the
	// first certificate requests of the users named with --auto-approve.
	ManagedClusterAutoApproval featuregate.Feature = "ManagedClusterAutoApproval"
	// ClusterProfile keeps a ClusterProfile for each cluster in the namespaces
	// that its set is bound to.
	ClusterProfile featuregate.Feature = "ClusterProfile"
	// ManifestWorkReplicaSet keeps a ManifestWork of one template in the
	// namespace of every cluster that a placement selects. While it is off,
	// ManifestWorkReplicaSets can't be written. It is on by default, and off
	// upstream.
	ManifestWorkReplicaSet featuregate.Feature = "ManifestWorkReplicaSet"
	// RolloutNeedsProgressing, which upstream does not have, has rollouts wait in
	// each cluster for the condition Progressing, as upstream's do: works that
	// nothing yields it for then never count as done.
	RolloutNeedsProgressing featuregate.Feature = "RolloutNeedsProgressing"

	// BoundClusterSets, which upstream does not have, counts a cluster that a
	// placement's decision names only if one of its sets is bound to the placement's
	// namespace, for replica sets and add-ons. Off is as upstream: who may write
	// decisions chooses among all clusters.
	BoundClusterSets featuregate.Feature = "BoundClusterSets"

	// PlacementDebugServer serves /debug/placements/. It explains how a placement
	// is decided, and which clusters a new one would choose, to users who may read
	// placements.
	PlacementDebugServer featuregate.Feature = "PlacementDebugServer"
	// PreferNoSelect, which upstream does not have, makes placements choose
	// clusters with an untolerated taint of that effect after all others.
	PreferNoSelect featuregate.Feature = "PreferNoSelect"

	// NilExecutorValidating asks of the authors of works without an executor that
	// they may execute works as the agent does.
	NilExecutorValidating featuregate.Feature = "NilExecutorValidating"
	// CleanUpCompletedManifestWork deletes works that are complete, after the time
	// that they name.
	CleanUpCompletedManifestWork featuregate.Feature = "CleanUpCompletedManifestWork"

	// ClusterRegistration, which upstream does not have, lets agents register by a
	// client ID, without knowing their cluster's name.
	ClusterRegistration featuregate.Feature = "ClusterRegistration"
	// ClusterImport, which upstream does not have, lets the hub install agents
	// through kubeconfigs that it is handed. A hub that keeps kubeconfigs is one
	// theft away from its clusters, so it is off by default.
	ClusterImport featuregate.Feature = "ClusterImport"
	// UserAccess, which upstream does not have, gives users of the hub access to
	// groups of clusters: logical clouds.
	UserAccess featuregate.Feature = "UserAccess"

	clusterImporter      featuregate.Feature = "ClusterImporter"
	sigPlacementDecision featuregate.Feature = "SIGPlacementDecision"
	cloudEventsDrivers   featuregate.Feature = "CloudEventsDrivers"
)

// Gates of the agent.
const (
	// ClusterClaim reports the ClusterClaims of the managed cluster.
	ClusterClaim featuregate.Feature = "ClusterClaim"
	// ClusterProperty reports the ClusterProperties of about.k8s.io. A property
	// takes precedence over a claim of the same name.
	ClusterProperty featuregate.Feature = "ClusterProperty"
	// MultipleHubs lets the agent choose among several hubs, and move on when
	// its hub denies the cluster or is gone for too long.
	MultipleHubs featuregate.Feature = "MultipleHubs"

	// ExecutorValidatingCaches remembers what the executors of works may do, and
	// watches roles and bindings to know when that changes.
	ExecutorValidatingCaches featuregate.Feature = "ExecutorValidatingCaches"
	// RawFeedbackJSONString lets feedback report values of any type, as JSON.
	RawFeedbackJSONString featuregate.Feature = "RawFeedbackJsonString"
	// DerivedProgressing, which upstream does not have, finds the conditions that
	// rollouts go by without rules: from the status of the kinds that are known.
	DerivedProgressing featuregate.Feature = "DerivedProgressing"
)

// Gates of both.
const (
	// AddonManagement has a hub install and configure add-ons, and an agent get the
	// agents of add-ons their credentials and report to the hub how the add-ons are. While
	// it is off at a hub, that is left to upstream's own manager of add-ons beside it.
	AddonManagement featuregate.Feature = "AddonManagement"
	// v1beta1CSRAPICompatibility is for clusters without certificates v1, which
	// no supported Kubernetes is. It has no effect.
	v1beta1CSRAPICompatibility featuregate.Feature = "V1beta1CSRAPICompatibility"
)

// about says in a few words what the gates do.
func about() map[featuregate.Feature]string {
	const noEffect = "taken as upstream does, without effect"
	return map[featuregate.Feature]string{
		DefaultClusterSet:            "keep the sets \"default\" and \"global\", and put clusters without a set into the former",
		ResourceCleanup:              "delete the add-ons and works of a deleted cluster",
		ManagedClusterAutoApproval:   "accept every new cluster, once",
		ClusterProfile:               "keep a ClusterProfile for each cluster in the namespaces that its set is bound to",
		NilExecutorValidating:        "ask of who writes a work without an executor the right execute-as for the agent's own service account",
		CleanUpCompletedManifestWork: "delete works that are complete, ttlSecondsAfterFinished later",
		ManifestWorkReplicaSet:       "keep a work of one template in every cluster that a placement selects, and roll changes of it out step by step",
		RolloutNeedsProgressing:      "have rollouts wait for the condition Progressing even of works that nothing yields it for, instead of going by Applied and Available; muster's own, on is as upstream",
		BoundClusterSets:             "give works of replica sets and add-ons only to clusters of sets that are bound to the placement's namespace, whatever its decisions say; muster's own, off is as upstream: for schedulers that choose without sets. Those who may write decisions then choose among all clusters",
		PlacementDebugServer:         "explain at /debug/placements/ how placements are decided, to users who may read them",
		PreferNoSelect:               "choose clusters with an untolerated taint of the effect PreferNoSelect after all others; muster's own, off is as upstream",
		ClusterRegistration:          "let agents register by a client ID, without knowing their cluster's name; muster's own",
		ClusterImport:                "install agents through kubeconfigs in the namespace muster-imports; muster's own",
		UserAccess:                   "give users of the hub access to groups of clusters (logical clouds); muster's own",
		ClusterClaim:                 "report the ClusterClaims of the managed cluster",
		ClusterProperty:              "report the ClusterProperties (about.k8s.io) of the managed cluster",
		MultipleHubs:                 "choose among the hubs of --bootstrap-kubeconfigs, and move on when one denies the cluster or is gone",
		ExecutorValidatingCaches:     "remember what the executors of works may do, and watch roles and bindings for changes of that",
		RawFeedbackJSONString:        "report values of any type in the feedback of works, as JSON",
		DerivedProgressing:           "report how the works of replica sets and add-ons progress without rules, from the status of the kinds that are known; muster's own, off is as upstream",
		AddonManagement:              "look after add-ons. At a hub: install, configure and register them; to be turned off where upstream's own manager of add-ons runs beside it. At an agent: get them credentials for the hub, and report their health",
		v1beta1CSRAPICompatibility:   noEffect,
		sigPlacementDecision:         noEffect,
	}
}

// AddFlag adds the flag --feature-gates, with a line of help for each gate that
// there is.
func AddFlag(f *pflag.FlagSet, g featuregate.MutableFeatureGate) {
	known, meaning := g.GetAll(), about()
	lines := []string{"features to turn on or off, as name=true or name=false with commas in between:"}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if text, ok := meaning[name]; ok {
			lines = append(lines, fmt.Sprintf("  %s (%t by default): %s", name, known[name].Default, text))
		}
	}
	f.Var(g.(pflag.Value), "feature-gates", strings.Join(lines, "\n"))
}

// NewHub returns the gates of a hub, at their defaults.
func NewHub() featuregate.MutableFeatureGate {
	return gates(map[featuregate.Feature]featuregate.FeatureSpec{
		DefaultClusterSet:            {Default: true, PreRelease: featuregate.Alpha},
		ResourceCleanup:              {Default: true, PreRelease: featuregate.Beta},
		ManagedClusterAutoApproval:   {Default: false, PreRelease: featuregate.Alpha},
		ClusterProfile:               {Default: false, PreRelease: featuregate.Alpha},
		v1beta1CSRAPICompatibility:   {Default: false, PreRelease: featuregate.Alpha},
		clusterImporter:              {Default: false, PreRelease: featuregate.Alpha},
		AddonManagement:              {Default: true, PreRelease: featuregate.Beta},
		sigPlacementDecision:         {Default: false, PreRelease: featuregate.Alpha},
		PlacementDebugServer:         {Default: false, PreRelease: featuregate.Alpha},
		PreferNoSelect:               {Default: false, PreRelease: featuregate.Alpha},
		NilExecutorValidating:        {Default: false, PreRelease: featuregate.Alpha},
		ManifestWorkReplicaSet:       {Default: true, PreRelease: featuregate.Beta},
		RolloutNeedsProgressing:      {Default: false, PreRelease: featuregate.Alpha},
		BoundClusterSets:             {Default: true, PreRelease: featuregate.Beta},
		cloudEventsDrivers:           {Default: false, PreRelease: featuregate.Alpha},
		CleanUpCompletedManifestWork: {Default: false, PreRelease: featuregate.Alpha},
		ClusterRegistration:          {Default: true, PreRelease: featuregate.Beta},
		ClusterImport:                {Default: false, PreRelease: featuregate.Alpha},
		UserAccess:                   {Default: true, PreRelease: featuregate.Beta},
	})
}

// NewAgent returns the gates of an agent, at their defaults.
func NewAgent() featuregate.MutableFeatureGate {
	return gates(map[featuregate.Feature]featuregate.FeatureSpec{
		ClusterClaim:               {Default: true, PreRelease: featuregate.Beta},
		ClusterProperty:            {Default: false, PreRelease: featuregate.Alpha},
		MultipleHubs:               {Default: false, PreRelease: featuregate.Alpha},
		AddonManagement:            {Default: true, PreRelease: featuregate.Beta},
		v1beta1CSRAPICompatibility: {Default: false, PreRelease: featuregate.Alpha},
		ExecutorValidatingCaches:   {Default: false, PreRelease: featuregate.Alpha},
		RawFeedbackJSONString:      {Default: false, PreRelease: featuregate.Alpha},
		DerivedProgressing:         {Default: true, PreRelease: featuregate.Beta},
	})
}

func gates(known map[featuregate.Feature]featuregate.FeatureSpec) featuregate.MutableFeatureGate {
	g := featuregate.NewFeatureGate()
	if err := g.Add(known); err != nil {
		panic(fmt.Sprintf("the feature gates contradict each other: %v", err)) // a constant table
	}
	return g
}

// Check names the gates that are on and that muster does not have yet.
func Check(g featuregate.FeatureGate) error {
	var on []string
	for name := range known(g) {
		if missing(name) && g.Enabled(name) {
			on = append(on, string(name))
		}
	}
	if len(on) == 0 {
		return nil
	}
	slices.Sort(on)
	return errors.New("--feature-gates turns on " + strings.Join(on, ", ") + ", which muster does not have: leave it out, or set it to false")
}

// missing are upstream's gates that nothing stands behind here.
func missing(f featuregate.Feature) bool {
	switch f {
	case clusterImporter, cloudEventsDrivers:
		return true
	}
	return false
}

func known(g featuregate.FeatureGate) map[featuregate.Feature]featuregate.FeatureSpec {
	if m, ok := g.(featuregate.MutableFeatureGate); ok {
		return m.GetAll()
	}
	return nil
}
