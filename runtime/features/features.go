// Package features names the feature gates of hubs and agents: those of Open
// Cluster Management, with its names and defaults, so that a line of flags or a
// ClusterManager's configuration carries over.
package features

import (
	"errors"
	"fmt"
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
	// Tunnel, which upstream does not have, takes users to the API servers of clusters
	// that nobody else reaches, through the hub. It needs UserAccess, agents that take
	// part, and a right that no role has from the start.
	Tunnel featuregate.Feature = "Tunnel"
	// WorkOverride, which upstream does not have, lets the works of a replica set differ
	// from cluster to cluster. It needs ManifestWorkReplicaSet.
	WorkOverride featuregate.Feature = "WorkOverride"

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
	// WorkPreview, which upstream does not have, lets who may write a work ask agents what
	// it would do in their clusters: by dry runs, which change nothing there.
	WorkPreview featuregate.Feature = "WorkPreview"
	// v1beta1CSRAPICompatibility is for clusters without certificates v1, which
	// no supported Kubernetes is. It has no effect.
	v1beta1CSRAPICompatibility featuregate.Feature = "V1beta1CSRAPICompatibility"
)

// side is who has a gate.
type side int

const (
	onHub side = 1 << iota
	onAgent
	onBoth = onHub | onAgent
)

// gate is a feature gate.
type gate struct {
	name featuregate.Feature
	of   side
	on   bool // by default
	// about says in a few words what the gate does; it is empty where nothing stands
	// behind a gate of upstream's.
	about string
}

func all() []gate {
	const noEffect = "taken as upstream does, without effect"
	return []gate{
		{DefaultClusterSet, onHub, true, "keep the sets \"default\" and \"global\", and put clusters without a set " +
			"into the former"},
		{ResourceCleanup, onHub, true, "delete the add-ons and works of a deleted cluster"},
		{ManagedClusterAutoApproval, onHub, false, "accept every new cluster, once"},
		{ClusterProfile, onHub, false, "keep a ClusterProfile for each cluster in the namespaces that its set is bound to"},
		{v1beta1CSRAPICompatibility, onBoth, false, noEffect},
		{clusterImporter, onHub, false, ""},
		{AddonManagement, onBoth, true, "look after add-ons. At a hub: install, configure and register them; to be " +
			"turned off where upstream's own manager of add-ons runs beside it. At an agent: get them credentials for the " +
			"hub, and report their health"},
		{sigPlacementDecision, onHub, false, noEffect},
		{PlacementDebugServer, onHub, false, "explain at /debug/placements/ how placements are decided, to users who " +
			"may read them"},
		{PreferNoSelect, onHub, false, "choose clusters with an untolerated taint of the effect PreferNoSelect after " +
			"all others; muster's own, off is as upstream"},
		{NilExecutorValidating, onHub, false, "ask of who writes a work without an executor the right execute-as for " +
			"the agent's own service account"},
		{ManifestWorkReplicaSet, onHub, true, "keep a work of one template in every cluster that a placement selects, " +
			"and roll changes of it out step by step"},
		{RolloutNeedsProgressing, onHub, false, "have rollouts wait for the condition Progressing even of works that " +
			"nothing yields it for, instead of going by Applied and Available; muster's own, on is as upstream"},
		{BoundClusterSets, onHub, true, "give works of replica sets and add-ons only to clusters of sets that are " +
			"bound to the placement's namespace, whatever its decisions say; muster's own, off is as upstream: for " +
			"schedulers that choose without sets. Those who may write decisions then choose among all clusters"},
		{cloudEventsDrivers, onHub, false, ""},
		{CleanUpCompletedManifestWork, onHub, false, "delete works that are complete, ttlSecondsAfterFinished later"},
		{ClusterRegistration, onHub, true, "let agents register by a client ID, without knowing their cluster's name; " +
			"muster's own"},
		{ClusterImport, onHub, false, "install agents through kubeconfigs in the namespace muster-imports; muster's own"},
		{UserAccess, onHub, true, "give users of the hub access to groups of clusters (logical clouds); muster's own"},
		{Tunnel, onHub, true, "take users with access to a cluster to its API server through the hub, where the " +
			"cluster's agent takes part (--tunnels); muster's own; needs UserAccess"},
		{WorkOverride, onHub, true, "let what a replica set puts into its clusters differ by their labels, claims " +
			"and addresses; muster's own; needs ManifestWorkReplicaSet"},
		{WorkPreview, onBoth, true, "preview what works would do in the clusters, by dry runs of their agents; " +
			"muster's own"},
		{ClusterClaim, onAgent, true, "report the ClusterClaims of the managed cluster"},
		{ClusterProperty, onAgent, false, "report the ClusterProperties (about.k8s.io) of the managed cluster"},
		{MultipleHubs, onAgent, false, "choose among the hubs of --bootstrap-kubeconfigs, and move on when one denies " +
			"the cluster or is gone"},
		{ExecutorValidatingCaches, onAgent, false, "remember what the executors of works may do, and watch roles and " +
			"bindings for changes of that"},
		{RawFeedbackJSONString, onAgent, false, "report values of any type in the feedback of works, as JSON"},
		{DerivedProgressing, onAgent, true, "report how the works of replica sets and add-ons progress without rules, " +
			"from the status of the kinds that are known; muster's own, off is as upstream"},
	}
}

// AddFlag adds the flag --feature-gates, with a line of help for each gate that
// there is.
func AddFlag(f *pflag.FlagSet, g featuregate.MutableFeatureGate) {
	lines := []string{"features to turn on or off, as name=true or name=false with commas in between:"}
	known := g.GetAll()
	for _, x := range all() {
		if spec, ok := known[x.name]; ok && x.about != "" {
			lines = append(lines, fmt.Sprintf("  %s (%t by default): %s", x.name, spec.Default, x.about))
		}
	}
	slices.Sort(lines[1:])
	f.Var(g.(pflag.Value), "feature-gates", strings.Join(lines, "\n"))
}

// NewHub returns the gates of a hub, at their defaults.
func NewHub() featuregate.MutableFeatureGate { return gates(onHub) }

// NewAgent returns the gates of an agent, at their defaults.
func NewAgent() featuregate.MutableFeatureGate { return gates(onAgent) }

func gates(of side) featuregate.MutableFeatureGate {
	known := map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, x := range all() {
		if x.of&of == 0 {
			continue
		}
		spec := featuregate.FeatureSpec{Default: x.on, PreRelease: featuregate.Alpha}
		if x.on && x.name != DefaultClusterSet { // which is alpha upstream, too
			spec.PreRelease = featuregate.Beta
		}
		known[x.name] = spec
	}
	g := featuregate.NewFeatureGate()
	if err := g.Add(known); err != nil {
		panic(fmt.Sprintf("the feature gates contradict each other: %v", err)) // a constant table
	}
	return g
}

// Check names the gates that are on and that muster does not have yet.
func Check(g featuregate.FeatureGate) error {
	m, ok := g.(featuregate.MutableFeatureGate)
	if !ok {
		return nil
	}
	known := m.GetAll()
	var on []string
	for _, x := range all() {
		if _, ok := known[x.name]; ok && x.about == "" && g.Enabled(x.name) {
			on = append(on, string(x.name))
		}
	}
	if len(on) == 0 {
		return nil
	}
	slices.Sort(on)
	return errors.New("--feature-gates turns on " + strings.Join(on, ", ") +
		", which muster does not have: leave it out, or set it to false")
}
