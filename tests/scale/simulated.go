package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
	"github.com/muster-fleet/terraform-provider-muster/tests/scale/memcluster"
	"github.com/muster-fleet/terraform-provider-muster/tests/scale/report"
)

const (
	// ofToken is how many simulated agents join by the same token, whose budget the last ones
	// would wait for otherwise.
	ofToken = 1000
	// joining is how many simulated agents join at a time.
	joining = 50
	// agentsShare is the part of the machine's memory that the simulated agents may take
	// before they collect their garbage at once.
	agentsShare = 0.68
)

// sizes are how large a simulated fleet is, and what is done to it.
type sizes struct {
	clusters, placements, rollouts, attempts int
	// lease is how often agents give a heartbeat, and settle for how long the fleet rests.
	lease, settle time.Duration
	// patience is how long nothing may happen while a step waits.
	patience time.Duration
	// steps are those to take; all without one.
	steps []string
	// profiles is the folder that gets profiles of the hub in each step; none without one.
	profiles string
	// results is the file that gets the results as JSON, after each step; none without one.
	results string
}

// simulation is a fleet whose agents run in this process: each with the loops of the
// agent's own program, its certificate and its connection to the hub. Their clusters are
// in memory, so that what a step costs is the hub's part of it.
type simulation struct {
	sizes
	hub *server
	dir string // of the hub
	// before is the CPU time of the hub's processes before the present one.
	before  time.Duration
	first   *memcluster.Cluster // what the others are copies of
	members []*member
	end     context.CancelCauseFunc // of the whole simulation

	clusterList, sets, works *follower
	// silent is set while agents are stopped, and falseUnknowns counts the clusters that
	// were called unknown while it was not.
	silent        atomic.Bool
	falseUnknowns atomic.Int64
	// made counts what was named, so that each has another name.
	made int
}

// member is a cluster of the fleet with its agent.
type member struct {
	name    string
	labels  map[string]string
	managed *memcluster.Cluster
	stop    func() // ends the agent, and returns when it has
	// joined gets the time when the cluster became available.
	joined chan time.Time
}

// simulate takes a fleet of simulated agents through steps, on a hub of its own.
func simulate(ctx context.Context, muster string, o sizes, out io.Writer) error {
	run := report.Run{
		Muster: version.Version(), Date: time.Now().UTC().Format(time.DateOnly), CPUs: runtime.NumCPU(),
		Clusters: o.clusters, Placements: o.placements, Rollouts: o.rollouts, LeaseSeconds: int(o.lease.Seconds()),
	}
	run.MemoryMB, run.Load = machine()
	if run.MemoryMB > 0 { // the hub has to have room beside it
		debug.SetMemoryLimit(int64(agentsShare * run.MemoryMB * 1e6))
	}
	chosen, err := choose(o.steps)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var flags []string
	for i := range o.tokens() {
		flags = append(flags, "--auto-approve", cluster.TokenUser(tokenOf(i).ID))
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o700); err != nil {
			return fmt.Errorf("make the folder of --profiles: %w", err)
		}
		flags = append(flags, "--profiling")
	}
	h, err := startHub(muster, dir, flags...)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	s := &simulation{sizes: o, hub: h, dir: dir, end: end}
	var following sync.WaitGroup
	defer func() {
		end(nil)
		s.stopAgents()
		following.Wait()
		_ = h.Stop()
	}()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, f := range []*follower{s.clusterList, s.sets, s.works} {
		following.Go(func() { f.run(ctx) })
	}
	var failed []error
	for _, st := range chosen {
		result, err := s.measure(ctx, st)
		run.Steps = append(run.Steps, result)
		printStep(out, result)
		if o.results != "" {
			if err := writeResults(o.results, run); err != nil {
				return err
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", st.name, err))
			if _, gone := s.read(ctx); gone != nil || st.name == "join" {
				break // what follows would fail, too
			}
		}
	}
	return errors.Join(failed...)
}

// choose returns the steps of the names, in the order in which they are declared, and always
// the first, which makes the fleet.
func choose(names []string) ([]step, error) {
	all := steps()
	known := make([]string, 0, len(all))
	for _, st := range all {
		known = append(known, st.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--steps: %q is not a step: choose from %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(st step) bool {
		return st.name != known[0] && len(names) > 0 && !slices.Contains(names, st.name)
	}), nil
}

// machine is the machine's memory in megabytes, and how many processes ran on average in
// the last minute.
func machine() (memory, load float64) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0
	}
	if info, err := fs.Meminfo(); err == nil && info.MemTotal != nil {
		memory = float64(*info.MemTotal) * 1024 / 1e6
	}
	if l, err := fs.LoadAvg(); err == nil {
		load = l.Load1
	}
	return memory, load
}

// tokenOf is a token by which simulated agents join.
func tokenOf(i int) bootstraptoken.Token {
	id := fmt.Sprintf("s%05d", i)
	return bootstraptoken.Token{ID: id, Secret: "0123456789abcdef", Groups: cluster.BootstrapGroup}
}

// tokens is how many tokens the agents join by. The hub approves their certificate requests by
// itself.
func (s sizes) tokens() int { return (s.clusters + ofToken - 1) / ofToken }

// bootstrapSecret is the Secret by which an agent joins.
func (s *simulation) bootstrapSecret(token bootstraptoken.Token) (*unstructured.Unstructured, error) {
	access, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Server: s.hub.config.Host, CAData: s.hub.config.CAData,
		Token: token.String(),
	}.YAML()
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"namespace": cluster.AgentNamespace, "name": cluster.BootstrapSecret},
		"data":     map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(access)},
	}}, err
}

// prepare makes what placements need, the clusters that the others are copies of, one for each
// token (with the agent's definitions, a node, and the Secret by which the agent joins), and the
// members.
func (s *simulation) prepare(ctx context.Context) error {
	binding := &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: "default"},
	}
	binding.Spec.ClusterSet = "default"
	if err := s.hub.client.Create(ctx, binding); err != nil {
		return err
	}
	kinds, err := crds.ManagedCluster()
	if err != nil {
		return err
	}
	s.first = memcluster.New()
	if err := definitions.Install(ctx, s.first.Config(), kinds); err != nil {
		return err
	}
	size := map[string]any{"cpu": "16", "memory": "64Gi", "pods": "110"}
	node := map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "node"},
		"status": map[string]any{"capacity": size, "allocatable": size},
	}
	if err := s.first.Create(&unstructured.Unstructured{Object: node}); err != nil {
		return err
	}
	var original *memcluster.Cluster
	for i := range s.clusters {
		if i%ofToken == 0 {
			token := tokenOf(i / ofToken)
			if err := s.hub.client.Create(ctx, token.Object()); err != nil {
				return err
			}
			secret, err := s.bootstrapSecret(token)
			if err != nil {
				return err
			}
			original = s.first.Copy()
			if err := original.Create(secret); err != nil {
				return err
			}
		}
		s.members = append(s.members, &member{
			name: fmt.Sprintf("cluster-%d", i), labels: s.labels(i), managed: original.Copy(),
			stop: func() {}, joined: make(chan time.Time, 1),
		})
	}
	s.clusterList = newFollower(s.hub.client, &clusterv1.ManagedClusterList{})
	s.clusterList.changed = s.noteAvailability
	s.sets = newFollower(s.hub.client, &workv1alpha1.ManifestWorkReplicaSetList{}, client.InNamespace(setNamespace))
	s.works = newFollower(s.hub.client, &workv1.ManifestWorkList{}, client.HasLabels{ownWork})
	return nil
}

// noteAvailability notes when a cluster has joined, and clusters that are called unknown
// though their agents run.
func (s *simulation) noteAvailability(old, now client.Object) {
	if available(now) && (old == nil || !available(old)) {
		var i int
		if _, err := fmt.Sscanf(now.GetName(), "cluster-%d", &i); err == nil && i < len(s.members) {
			select {
			case s.members[i].joined <- time.Now():
			default: // it has joined before
			}
		}
	}
	if old != nil && available(old) && unknown(now) && !s.silent.Load() {
		s.falseUnknowns.Add(1)
	}
}

func available(o client.Object) bool {
	return meta.IsStatusConditionTrue(o.(*clusterv1.ManagedCluster).Status.Conditions, cluster.ConditionAvailable)
}

func unknown(o client.Object) bool {
	c := meta.FindStatusCondition(o.(*clusterv1.ManagedCluster).Status.Conditions, cluster.ConditionAvailable)
	return c != nil && c.Status == metav1.ConditionUnknown
}

// start starts the agent of a cluster.
func (s *simulation) start(ctx context.Context, m *member) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := agent.Run(ctx, agent.Options{
			ClusterName: m.name, ManagedCluster: m.managed.Config(), Log: slog.Default(),
		})
		if err != nil {
			s.end(fmt.Errorf("the agent of %s has ended: %w", m.name, err))
		}
	}()
	m.stop = func() { stop(); <-ended }
}

// stopAgents ends all agents and returns when they have ended.
func (s *simulation) stopAgents() {
	var stopping sync.WaitGroup
	for _, m := range s.members {
		stopping.Go(m.stop)
	}
	stopping.Wait()
}

// labels are those of the cluster i: by resource-group a placement picks it, env and half say
// when a staged rollout comes to it.
func (s *simulation) labels(i int) map[string]string {
	env := "prod"
	switch part := float64(i) / float64(s.clusters); {
	case part < 0.2:
		env = "staging"
	case part < 0.5:
		env = "canary"
	}
	return map[string]string{
		groupLabel: fmt.Sprint(i % s.groups()), "env": env, "half": fmt.Sprint(i / s.groups() % 2),
	}
}

// groups is how many resource groups the clusters are divided into: ten, and fewer in a fleet
// that is too small for all stages of a rollout.
func (s *simulation) groups() int { return min(10, max(1, s.clusters/4)) }

// writeResults writes a run as JSON.
func writeResults(file string, run report.Run) error {
	text, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // results are no secret
}
