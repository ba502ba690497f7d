package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
	"github.com/muster-fleet/terraform-provider-muster/tests/scale/memcluster"
)

var (
	faults = flag.Int("faults", 25, "how many faults TestNoFaultLosesAnything injects")
	seed   = flag.Uint64("seed", 0, "seed of its faults and writes, as a run has logged it; 0 takes another one")
)

const (
	labNamespace = "lab"
	labLabel     = "muster-lab"
	groupLabel   = "group"
	// tokenUser is who the agents are before they have certificates.
	tokenUser = "system:bootstrap:lab000"
	// patience is how long a write waits for its answer.
	patience = 3 * time.Second
	// maxClusters is how many clusters there are at most.
	maxClusters = 5
)

var token = bootstraptoken.Token{ID: "lab000", Secret: "0123456789abcdef", Groups: cluster.BootstrapGroup}

// lab is a hub, agents and users, each process of its own or behind a network of its own
// that can fail, and clusters in memory.
type lab struct {
	t              *testing.T
	rand           *rand.Rand
	muster         string
	hubs           []*testhub.Process // one, or the replicas that share a store
	store          []*testhub.Process // members of the replicas' etcd
	hubDir         string
	mayHaveEnded   bool          // whether a hub may have given up in this round
	ca             []byte        // that the hub's certificate is from
	admin          client.Client // past every fault of a network
	users          *link
	user           client.Client // by way of users
	members        []*member
	troubled       *member // the member that the last fault of this round happened to
	model          model
	faults         []fault
	infrastructure *infrastructure
	round          int
	written        int      // names every write
	log            []string // of this round and the one before
}

// member is a managed cluster in memory, with an agent that is a process.
type member struct {
	number           int
	name             string
	cluster          *memcluster.Cluster
	client           client.Client
	agent            *testhub.Process
	bootstrap        string // the kubeconfig that it joins by
	toHub, toCluster *link  // the agent's networks
	server           *refuser
}

// TestNoFaultLosesAnything lets users write while processes, networks and disks fail, and
// checks after each fault that the fleet comes to what was acknowledged: nothing lost,
// nothing twice, nothing in another cluster.
func TestNoFaultLosesAnything(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	for _, x := range []struct {
		name           string
		hubs, injected int
	}{{"one hub", 1, *faults}, {"three hubs", 3, (*faults + 1) / 2}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel() // It mostly waits.
			inject(t, x.hubs, x.injected)
		})
	}
}

func inject(t *testing.T, hubs, injections int) {
	t.Logf("replay with: make test-faults LAB=%s FAULTS=%d SEED=%d", path.Base(t.Name()), *faults, *seed)
	l := newLab(t, hubs)
	counts := map[string]int{}
	for injected := 0; injected < injections; {
		l.nextRound()
		began := time.Now()
		went := l.faultsAndWrites()
		injected += len(went)
		for _, f := range went {
			counts[f]++
		}
		l.converge()
		l.forgetRequests()
		took := time.Since(began).Round(10 * time.Millisecond)
		t.Logf("round %d: %s: as it has to be after %s", l.round, strings.Join(went, "; "), took)
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%3d times %s", counts[name], name)
	}
}

// nextRound begins a round, whose randomness depends on the seed and its number alone.
func (l *lab) nextRound() {
	l.round++
	l.rand = rand.New(rand.NewPCG(*seed, uint64(l.round))) //nolint:gosec // to be replayed
	before := max(0, slices.IndexFunc(l.log, func(line string) bool { return line == roundLine(l.round-1) }))
	l.log = append(slices.Clone(l.log[before:]), roundLine(l.round))
	l.mayHaveEnded, l.troubled = false, nil
}

func roundLine(n int) string { return fmt.Sprintf("--- round %d", n) }

func (l *lab) note(format string, args ...any) {
	l.log = append(l.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func newLab(t *testing.T, hubs int) *lab {
	skipWithoutTerraform(t)
	logging.Setup(context.Background(), io.Discard, 0, false)
	l := &lab{t: t, model: model{}, faults: faultsOf(hubs)}
	var err error
	l.muster, err = (&testhub.Builder{}).Path(t.TempDir())
	testkit.Must(t, err)
	l.users = newLink(t)
	flags := []string{"--auto-approve", tokenUser}
	if hubs == 1 {
		l.hubDir = l.makeDisk()
	} else {
		l.hubDir = t.TempDir()
		flags = append(flags, "--etcd-servers", l.startStore(), "--replica-key-file", l.secret("replica.key"))
	}
	for i := range hubs {
		hub, err := testhub.StartHub(l.muster, filepath.Join(l.hubDir, "hub-"+strconv.Itoa(i)), flags...)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = hub.Kill() })
		l.hubs = append(l.hubs, hub)
	}
	l.users.leadTo(l.addresses()...)
	config, err := clientcmd.BuildConfigFromFlags("", l.hubs[0].Kubeconfig)
	testkit.Must(t, err)
	config.Host, config.QPS = "https://"+newLink(t, l.addresses()...).address(), -1
	l.admin, l.ca = l.client(config), config.CAData
	l.infrastructure = newInfrastructure(t, config, "https://"+l.users.address())
	behind := rest.CopyConfig(config)
	behind.Host, behind.Timeout = "https://"+l.users.address(), patience
	l.user = l.client(behind)

	l.create(token.Object())
	l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: labNamespace}})
	l.prepare()
	for range 3 {
		l.onboard()
	}
	l.converge()
	return l
}

// addresses are where the hubs serve.
func (l *lab) addresses() (all []string) {
	for _, hub := range l.hubs {
		all = append(all, address(l.t, hub.URL))
	}
	return all
}

// of is the one of some processes that a fault meets which meets a member.
func of(processes []*testhub.Process, m *member) *testhub.Process {
	return processes[m.number%len(processes)]
}

func (l *lab) client(config *rest.Config) client.Client {
	c, err := client.New(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	testkit.Must(l.t, err)
	return c
}

func (l *lab) create(o client.Object) {
	l.t.Helper()
	testkit.Must(l.t, l.admin.Create(context.Background(), o))
}

func address(t testing.TB, at string) string {
	u, err := url.Parse(at)
	testkit.Must(t, err)
	return u.Host
}

// onboard adds a cluster, whose agent joins by the token.
func (l *lab) onboard() {
	number := len(l.members) + 1
	m := &member{number: number, name: fmt.Sprintf("c%d", number), cluster: memcluster.New()}
	kinds, err := crds.ManagedCluster()
	testkit.Must(l.t, err)
	testkit.Must(l.t, definitions.Install(context.Background(), m.cluster.Config(), kinds))
	m.client = l.client(m.cluster.Config())
	m.server = &refuser{Handler: m.cluster}
	server := httptest.NewServer(m.server)
	l.t.Cleanup(server.CloseClientConnections)
	m.toHub, m.toCluster = newLink(l.t, l.addresses()...), newLink(l.t, address(l.t, server.URL))
	m.bootstrap = l.kubeconfig(kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Server: "https://" + m.toHub.address(), CAData: l.ca, Token: token.String(),
	})
	local := l.kubeconfig(kubeconfig.Config{
		Cluster: "cluster", User: "agent", Server: "http://" + m.toCluster.address(),
	})
	// What is left of a work that went before the agent had a finalizer on it goes after
	// the grace period, of an hour by default.
	m.agent, err = testhub.StartAgent(l.muster, m.name, m.bootstrap, local,
		"--appliedmanifestwork-eviction-grace-period", "5s", "--user-access")
	testkit.Must(l.t, err)
	l.t.Cleanup(func() { _ = m.agent.Kill() })
	l.members = append(l.members, m)
}

// kubeconfig writes a kubeconfig to a file, which it returns the path of.
func (l *lab) kubeconfig(c kubeconfig.Config) string {
	data, err := c.YAML()
	testkit.Must(l.t, err)
	path := filepath.Join(l.t.TempDir(), "kubeconfig")
	testkit.Must(l.t, os.WriteFile(path, data, 0o600))
	return path
}

// atLeisure calls check ten times a second at most.
func (l *lab) atLeisure(check func() error) func() error {
	var last time.Time
	var err error
	return func() error {
		if time.Since(last) >= 100*time.Millisecond {
			err, last = check(), time.Now()
		}
		return err
	}
}

// converge waits until the fleet is as it has to be.
func (l *lab) converge() {
	l.t.Helper()
	if err := testkit.Poll(testkit.Timeout, l.atLeisure(l.converged)); err != nil {
		l.t.Fatalf("round %d, seed %d: %v\n%s", l.round, *seed, err, l.report())
	}
}

// forgetRequests deletes the certificate requests of this round, as the hub does after an
// hour: it takes no more than a few of one cluster by a token.
func (l *lab) forgetRequests() {
	l.t.Helper()
	testkit.Must(l.t, l.admin.DeleteAllOf(context.Background(), &certificatesv1.CertificateSigningRequest{}))
}

// report is what somebody needs who looks for the reason of a violation.
func (l *lab) report() string {
	var b strings.Builder
	for _, line := range l.log {
		fmt.Fprintln(&b, line)
	}
	for i, hub := range l.hubs {
		fmt.Fprintf(&b, "--- hub %d\n%s", i, tail(hub.Log()))
	}
	for _, m := range l.members {
		fmt.Fprintf(&b, "--- agent of %s\n%s", m.name, tail(m.agent.Log()))
	}
	return b.String()
}

func tail(log string) string { return log[max(0, len(log)-4000):] }

// converged says what is not yet as it has to be: what users have written, the works that
// follow from it, what is in the clusters, and what is reported.
func (l *lab) converged() error {
	if err := l.serving(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	clusters, works := &clusterv1.ManagedClusterList{}, &workv1.ManifestWorkList{}
	sets, addOns := &workv1alpha1.ManifestWorkReplicaSetList{}, &addonv1alpha1.ManagedClusterAddOnList{}
	clouds := &v1alpha1.LogicalCloudList{}
	for _, list := range []client.ObjectList{clusters, works, sets, addOns, clouds} {
		if err := l.admin.List(ctx, list); err != nil {
			return err
		}
	}
	read, group := map[string]string{}, map[string]string{}
	for _, c := range clusters.Items {
		if g := c.Labels[groupLabel]; g != "" {
			group[c.Name] = g
			read["group "+c.Name] = g
		}
	}
	want := map[string]map[string]string{} // what the clusters have to have, by cluster and config map
	for _, m := range l.members {
		want[m.name] = map[string]string{}
	}
	derived := map[string]string{} // contents of works that follow from sets and add-ons, by cluster and set or add-on
	for _, s := range sets.Items {
		g, c := s.Spec.PlacementRefs[0].Name, contentOf(s.Spec.ManifestWorkTemplate)
		read["set "+s.Name] = g + ": " + c.String()
		for name, in := range group {
			if in == g {
				derived[name+"/"+s.Namespace+"."+s.Name] = c.String()
			}
		}
	}
	for _, a := range addOns.Items {
		read["add-on "+a.Namespace] = "on"
		derived[a.Namespace+"/"+addOnName] = content{addOnName + "-addon": "on"}.String()
		if !a.DeletionTimestamp.IsZero() || !meta.IsStatusConditionTrue(a.Status.Conditions, addon.ConditionAvailable) {
			return fmt.Errorf("the add-on in %s is not available: %+v", a.Namespace, a.Status.Conditions)
		}
	}
	l.readClouds(clouds.Items, read)
	for _, w := range works.Items {
		if w.Labels[muster.LogicalCloudLabel] != "" {
			continue // letIn looks at what it brings
		}
		c := contentOf(w.Spec)
		maps.Copy(want[w.Namespace], c)
		of := cmp.Or(w.Labels[work.ReplicaSetLabel], w.Labels[cluster.AddOnNameLabel])
		if of == "" {
			read["work "+w.Namespace+"/"+w.Name] = c.String()
			continue
		}
		key := w.Namespace + "/" + of
		if derived[key] != c.String() {
			return fmt.Errorf("the work %s/%s of %s is %q, want %q", w.Namespace, w.Name, of, c, derived[key])
		}
		delete(derived, key)
	}
	if len(derived) > 0 {
		return fmt.Errorf("works of sets and add-ons are missing: %v", derived)
	}
	if err := l.model.check(l.round, read); err != nil {
		return err
	}
	if err := l.reported(clusters.Items, works.Items, sets.Items, group); err != nil {
		return err
	}
	if err := l.carriedOut(ctx, works.Items, want); err != nil {
		return err
	}
	if err := l.letIn(ctx, clouds.Items, group); err != nil {
		return err
	}
	l.model.settle(l.round, read)
	return nil
}

// serving checks that the hubs run and answer. One that may have given up is started again.
func (l *lab) serving() error {
	for i, hub := range l.hubs {
		select {
		case err := <-hub.Exited():
			if !l.mayHaveEnded {
				return fmt.Errorf("the hub %d has ended by itself: %w", i, err)
			} else if err := hub.Restart(); err != nil {
				return err
			}
		default:
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return l.admin.Get(ctx, client.ObjectKey{Name: labNamespace}, &corev1.Namespace{})
}

// contentOf is what a work puts into a cluster.
func contentOf(spec workv1.ManifestWorkSpec) content {
	c := content{}
	for _, m := range spec.Workload.Manifests {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(m.Raw); err == nil {
			c[o.GetName()], _, _ = unstructured.NestedString(o.Object, "data", "value")
		}
	}
	return c
}

// reported checks the conditions of everything.
func (l *lab) reported(
	clusters []clusterv1.ManagedCluster, works []workv1.ManifestWork, sets []workv1alpha1.ManifestWorkReplicaSet,
	group map[string]string,
) error {
	if len(clusters) != len(l.members) {
		return fmt.Errorf("there are %d clusters, want %d", len(clusters), len(l.members))
	}
	for _, c := range clusters {
		for _, kind := range []string{
			cluster.ConditionHubAccepted, cluster.ConditionJoined, cluster.ConditionAvailable,
			cluster.ConditionClockSynced,
		} {
			if !meta.IsStatusConditionTrue(c.Status.Conditions, kind) {
				return fmt.Errorf("%s of the cluster %s is not True: %+v", kind, c.Name, c.Status.Conditions)
			}
		}
	}
	for _, w := range works {
		if !w.DeletionTimestamp.IsZero() {
			return fmt.Errorf("the work %s/%s is still being deleted", w.Namespace, w.Name)
		}
		if w.Labels[muster.LogicalCloudLabel] != "" {
			continue // it may look for something that is not there
		}
		for _, kind := range []string{work.ConditionApplied, work.ConditionAvailable} {
			c := meta.FindStatusCondition(w.Status.Conditions, kind)
			if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != w.Generation {
				return fmt.Errorf("%s of the work %s/%s, generation %d, is %+v",
					kind, w.Namespace, w.Name, w.Generation, c)
			}
		}
	}
	for _, s := range sets {
		n := 0
		for _, g := range group {
			if g == s.Spec.PlacementRefs[0].Name {
				n++
			}
		}
		if s.Status.Summary.Total != n || s.Status.Summary.Available != n {
			return fmt.Errorf("the set %s reports %+v, want %d works", s.Name, s.Status.Summary, n)
		}
	}
	return nil
}

// carriedOut checks that each cluster has what its works say, and nothing else of a work.
func (l *lab) carriedOut(ctx context.Context, works []workv1.ManifestWork, want map[string]map[string]string) error {
	for _, m := range l.members {
		maps, applied := &corev1.ConfigMapList{}, &workv1.AppliedManifestWorkList{}
		err := errors.Join(m.client.List(ctx, maps, client.HasLabels{labLabel}), m.client.List(ctx, applied))
		if err != nil {
			return err
		}
		has := content{}
		for _, o := range maps.Items {
			has[o.Name] = o.Data["value"]
		}
		if wanted := content(want[m.name]).String(); has.String() != wanted {
			return fmt.Errorf("the cluster %s has %q, want %q", m.name, has, wanted)
		}
		n := 0
		for _, w := range works {
			if w.Namespace == m.name {
				n++
			}
		}
		if len(applied.Items) != n {
			return fmt.Errorf("the cluster %s has %d applied works, want %d", m.name, len(applied.Items), n)
		}
	}
	return nil
}
