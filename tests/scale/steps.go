package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// step is something that happens to a fleet.
type step struct {
	name, what, unit string
	// units is how much of it is done, which its costs are divided by.
	units func(s *simulation) int
	run   func(s *simulation, ctx context.Context, m *measured) error
}

// steps are all steps, in their order: later ones find what earlier ones made. The first
// makes the fleet.
func steps() []step {
	clusters := func(s *simulation) int { return s.clusters }
	attempts := func(s *simulation) int { return s.attempts }
	works := func(s *simulation) int { return s.placements * s.clusters / s.groups() }
	rollouts := func(s *simulation) int { return s.rollouts * s.clusters / s.groups() }
	return []step{
		{"join", "all clusters join", "clusters", clusters, (*simulation).join},
		{"rest", "rest with heartbeats", "heartbeats", (*simulation).heartbeats, (*simulation).rest},
		{"works", "a work for each cluster", "works", clusters, (*simulation).makeWorks},
		{"works-changed", "all of these works change at once", "works", clusters, (*simulation).changeWorks},
		{"placement", "one placement", "placements", attempts, (*simulation).onePlacement},
		{"placements", "many placements", "works", works, (*simulation).manyPlacements},
		{"rest-placed", "rest with all works", "heartbeats", (*simulation).heartbeats, (*simulation).rest},
		{"restart-kill", "restart after a crash, until all is processed", "restarts", attempts, (*simulation).crash},
		{"restart-term", "restart in good order, until all is processed", "restarts", attempts,
			(*simulation).stopAndStart},
		{"placement-again", "one more placement", "placements", attempts, (*simulation).onePlacement},
		{"rollouts-made", "staged placements for the rollouts", "works", rollouts, (*simulation).makeRollouts},
		{"rollout", "one staged rollout", "rollouts", attempts, (*simulation).oneRollout},
		{"rollouts", "many staged rollouts at once", "works", rollouts, (*simulation).manyRollouts},
		{"placement-meanwhile", "one more placement during the rollouts", "placements", attempts,
			(*simulation).meanwhile},
		{"restart-loaded", "crash and restart while all works change", "works", works, (*simulation).crashLoaded},
		{"storm", "all connections drop at once", "clusters", clusters, (*simulation).storm},
		{"renewal", "all certificates are renewed", "renewals", clusters, (*simulation).renew},
		{"relabel", "a tenth of the clusters moves to other placements", "clusters",
			func(s *simulation) int { return max(1, s.clusters/10) }, (*simulation).relabel},
		{"silence", "all agents fall silent until unknown", "clusters", clusters, (*simulation).silence},
		{"return", "and come back", "clusters", clusters, (*simulation).comeBack},
		{"addon", "an add-on for all clusters", "add-ons in a cluster", clusters, (*simulation).installAddOn},
		{"addon-configured", "the add-on is configured otherwise", "add-ons in a cluster", clusters,
			(*simulation).configureAddOn},
		{"addon-removed", "the add-on is removed", "add-ons in a cluster", clusters, (*simulation).removeAddOn},
	}
}

// join creates clusters and starts their agents, some at a time.
func (s *simulation) join(ctx context.Context, m *measured) error {
	patient, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	idle := time.AfterFunc(s.patience, func() {
		giveUp(fmt.Errorf("no cluster has joined for %s", s.patience))
	})
	defer idle.Stop()
	joins, waiting := errgroup.WithContext(patient)
	joins.SetLimit(joining)
	var mu sync.Mutex
	for _, one := range s.members {
		joins.Go(func() error {
			mc := acceptedCluster(one.name, int32(s.lease.Seconds())) //nolint:gosec // no lease is as long
			mc.Labels = one.labels
			tries, err := s.create(waiting, mc)
			if err != nil {
				return err
			}
			begin := time.Now()
			s.start(ctx, one)
			mu.Lock()
			m.values["creations tried again"] += float64(tries - 1)
			mu.Unlock()
			select {
			case at := <-one.joined:
				mu.Lock()
				defer mu.Unlock()
				m.attempts = append(m.attempts, at.Sub(begin))
				idle.Reset(s.patience)
				return nil
			case <-waiting.Done():
				return context.Cause(waiting)
			}
		})
	}
	if err := joins.Wait(); err != nil {
		return fmt.Errorf("%d of %d clusters have joined: %w", len(m.attempts), s.clusters, err)
	}
	return nil
}

// create creates an object, again where the hub is too busy to say whether it has. It
// returns how often it has tried.
func (s *simulation) create(ctx context.Context, o client.Object) (tries int, err error) {
	bounded, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	var last error
	err = retry.Until(bounded, clock.RealClock{}, retry.Restart(10*time.Second), func(ctx context.Context) error {
		tries++
		if last = s.hub.client.Create(ctx, o); tries > 1 && apierrors.IsAlreadyExists(last) {
			last = nil
		}
		return last
	})
	if err != nil {
		return tries, fmt.Errorf("create %s, %d tries: %w", o.GetName(), tries, cmp.Or(last, err))
	}
	return tries, nil
}

func (s *simulation) allAvailable(ctx context.Context) error {
	return s.clusterList.await(ctx, s.patience, "clusters are available", s.clusters, available)
}

// heartbeats is about how many there are while the fleet rests: agents add up to a quarter
// to the time between two.
func (s *simulation) heartbeats() int {
	return max(1, int(float64(s.clusters)*s.settle.Seconds()/(1.125*s.lease.Seconds())))
}

func (s *simulation) rest(ctx context.Context, _ *measured) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(s.settle):
		return nil
	}
}

// ownWork marks the works that are made for single clusters, and names them.
const ownWork = "scale-work"

func newWork(cluster, text string) *workv1.ManifestWork {
	raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q},`+
		`"data":{"text":%q}}`, ownWork, text)
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: ownWork, Labels: map[string]string{ownWork: ""},
	}}
	mw.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
	return mw
}

func (s *simulation) makeWorks(ctx context.Context, _ *measured) error {
	err := forEach(ctx, s.members, func(ctx context.Context, one *member) error {
		return s.hub.client.Create(ctx, newWork(one.name, "first"))
	})
	if err != nil {
		return err
	}
	return s.worksDone(ctx, "first")
}

func (s *simulation) changeWorks(ctx context.Context, _ *measured) error {
	text := s.another("text")
	err := forEach(ctx, s.members, func(ctx context.Context, one *member) error {
		mw := newWork(one.name, text)
		patch, err := patchOf(map[string]any{"spec": map[string]any{"workload": mw.Spec.Workload}})
		if err != nil {
			return err
		}
		return s.insist(ctx, func(ctx context.Context) error { return s.hub.client.Patch(ctx, mw, patch) })
	})
	if err != nil {
		return err
	}
	return s.worksDone(ctx, text)
}

func (s *simulation) worksDone(ctx context.Context, text string) error {
	return s.works.await(ctx, s.patience, "works are reported as they are now", s.clusters, func(o client.Object) bool {
		mw := o.(*workv1.ManifestWork)
		c := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionAvailable)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == mw.Generation &&
			strings.Contains(string(mw.Spec.Workload.Manifests[0].Raw), text)
	})
}

// another is a name with a prefix that nothing has yet.
func (s *simulation) another(prefix string) string {
	s.made++
	return fmt.Sprintf("%s-%d", prefix, s.made)
}

// onePlacement makes one placement after the other, and removes each once it was measured.
func (s *simulation) onePlacement(ctx context.Context, m *measured) error {
	for range s.attempts {
		if err := s.oneMore(ctx, m); err != nil {
			return err
		}
		if err := s.idle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// oneMore makes a placement and removes it when it is done.
func (s *simulation) oneMore(ctx context.Context, m *measured) error {
	name, begin := s.another("one"), time.Now()
	err := s.insist(ctx, func(ctx context.Context) error { return s.place(ctx, name, s.made, false) })
	if err == nil {
		err = s.rolledOut(ctx, name, 1, "x")
	}
	if err != nil {
		return err
	}
	m.attempt(begin)
	return s.remove(ctx, name)
}

func (s *simulation) manyPlacements(ctx context.Context, _ *measured) error {
	err := forEach(ctx, names("many", s.placements), func(ctx context.Context, name string) error {
		return s.place(ctx, name, number(name), false)
	})
	if err != nil {
		return err
	}
	return s.rolledOut(ctx, "many-", s.placements, "x")
}

// number is the one at the end of a name.
func number(name string) int {
	n, _ := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	return n
}

func (s *simulation) crash(ctx context.Context, m *measured) error {
	return s.restarts(ctx, m, func() error { return s.hub.Kill() })
}

func (s *simulation) stopAndStart(ctx context.Context, m *measured) error {
	return s.restarts(ctx, m, func() error { return s.hub.Stop() })
}

// restarts ends the hub and starts it again, and waits until one more placement is done and
// its controllers have nothing to do. What the attempts took is until then; until the hub was
// ready is beside it.
func (s *simulation) restarts(ctx context.Context, m *measured, end func() error) error {
	var ready []time.Duration
	for range s.attempts {
		begin := time.Now()
		took, err := s.restart(end)
		if err != nil {
			return err
		}
		ready = append(ready, took)
		if err := s.oneMore(ctx, &measured{}); err != nil {
			return err
		}
		if err := s.idle(ctx); err != nil {
			return err
		}
		m.attempt(begin)
		if err := s.allAvailable(ctx); err != nil {
			return err
		}
	}
	m.note("seconds until ready", ready)
	return nil
}

// restart ends the hub and returns how long it takes from then until it is ready again.
func (s *simulation) restart(end func() error) (time.Duration, error) {
	begin, used := time.Now(), s.hub.cpu()
	if err := end(); err != nil {
		return 0, err
	}
	s.before += used
	if err := s.hub.Restart(); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}

// revise changes the content of replica sets, and waits until all their clusters have reported
// on it.
func (s *simulation) revise(ctx context.Context, sets []string) error {
	return s.reviseTo(ctx, sets, s.another("v"))
}

func (s *simulation) reviseTo(ctx context.Context, sets []string, text string) error {
	if err := s.changeAll(ctx, sets, text); err != nil {
		return err
	}
	return s.rolledOut(ctx, prefix(sets), len(sets), text)
}

func (s *simulation) changeAll(ctx context.Context, sets []string, text string) error {
	return forEach(ctx, sets, func(ctx context.Context, name string) error { return s.change(ctx, name, text) })
}

// prefix is what names that differ in their number have in common.
func prefix(names []string) string { return names[0][:strings.LastIndex(names[0], "-")+1] }

func (s *simulation) makeRollouts(ctx context.Context, _ *measured) error {
	err := forEach(ctx, names("staged", s.rollouts), func(ctx context.Context, name string) error {
		return s.place(ctx, name, number(name), true)
	})
	if err != nil {
		return err
	}
	return s.rolledOut(ctx, "staged-", s.rollouts, "x")
}

func (s *simulation) oneRollout(ctx context.Context, m *measured) error {
	name := "single-0"
	if err := s.place(ctx, name, 0, true); err != nil {
		return err
	}
	if err := s.rolledOut(ctx, name, 1, "x"); err != nil {
		return err
	}
	for range s.attempts {
		begin := time.Now()
		if err := s.revise(ctx, []string{name}); err != nil {
			return err
		}
		m.attempt(begin)
		if err := s.idle(ctx); err != nil {
			return err
		}
	}
	return s.remove(ctx, name)
}

func (s *simulation) manyRollouts(ctx context.Context, m *measured) error {
	begin := time.Now()
	err := s.revise(ctx, names("staged", s.rollouts))
	m.attempt(begin)
	return err
}

// meanwhile makes one placement after the other while the rollouts run.
func (s *simulation) meanwhile(ctx context.Context, m *measured) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	enough := make(chan struct{})
	running := make(chan error, 1)
	go func() {
		for {
			text := fmt.Sprintf("m%d", time.Now().UnixNano())
			if err := s.reviseTo(ctx, names("staged", s.rollouts), text); err != nil {
				running <- err
				return
			}
			select {
			case <-enough:
				running <- nil
				return
			default:
			}
		}
	}()
	for range s.attempts {
		if err := s.oneMore(ctx, m); err != nil {
			return err
		}
	}
	close(enough)
	return <-running
}

// crashLoaded kills the hub while all placements change, and waits until all have.
func (s *simulation) crashLoaded(ctx context.Context, m *measured) error {
	sets, text := names("many", s.placements), s.another("v")
	half := len(sets) / 2
	if err := s.changeAll(ctx, sets[:half], text); err != nil {
		return err
	}
	begin := time.Now()
	changing := make(chan error, 1)
	go func() { changing <- s.changeAll(ctx, sets[half:], text) }()
	ready, err := s.restart(func() error { return s.hub.Kill() })
	if err == nil {
		err = <-changing
	}
	if err == nil {
		err = s.rolledOut(ctx, prefix(sets), len(sets), text)
	}
	m.attempt(begin)
	m.note("seconds until ready", []time.Duration{ready})
	return err
}

// storm drops all connections to the hub at once, and then changes a work of each cluster:
// all agents are back when they have reported on it.
func (s *simulation) storm(ctx context.Context, m *measured) error {
	dropped, err := s.dropConnections()
	if err != nil {
		return err
	}
	m.values["connections dropped"] = float64(dropped)
	return s.changeWorks(ctx, m)
}

// dropConnections ends the connections of this process to the hub, as when the network
// between them has failed, and returns how many there were.
func (s *simulation) dropConnections() (int, error) {
	hub, err := url.Parse(s.hub.config.Host)
	if err != nil {
		return 0, err
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	dropped := 0
	for _, file := range open {
		fd, err := strconv.Atoi(file.Name())
		if err != nil {
			return dropped, err
		}
		peer, err := syscall.Getpeername(fd)
		if at, ok := peer.(*syscall.SockaddrInet4); err != nil || !ok || strconv.Itoa(at.Port) != hub.Port() {
			continue
		}
		if err := syscall.Shutdown(fd, syscall.SHUT_RDWR); err == nil {
			dropped++
		}
	}
	return dropped, nil
}

// renew makes all agents lose their certificates, some at a time, so that they ask for
// others with the ones that they have in memory, as they do in good time before a certificate
// expires.
func (s *simulation) renew(ctx context.Context, m *measured) error {
	var mu sync.Mutex
	return forEach(ctx, s.members, func(ctx context.Context, one *member) error {
		c, err := client.New(one.managed.Config(), client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
		if err != nil {
			return err
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.AgentNamespace, Name: cluster.HubKubeconfigSecret,
		}}
		begin := time.Now()
		if err := c.Delete(ctx, secret); err != nil {
			return err
		}
		err = s.insist(ctx, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
				return err
			}
			if len(secret.Data[cluster.TLSCertKey]) == 0 {
				return fmt.Errorf("the agent of %s has stored no certificate", one.name)
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		m.attempt(begin)
		return err
	})
}

// relabel moves a tenth of the clusters to the next resource group, and with it to other
// placements.
func (s *simulation) relabel(ctx context.Context, _ *measured) error {
	var moved []*member
	for i, one := range s.members {
		if i/s.groups()%10 == 0 && len(moved) < max(1, s.clusters/10) {
			one.labels[groupLabel] = fmt.Sprint((number(one.name) + 1) % s.groups())
			moved = append(moved, one)
		}
	}
	err := forEach(ctx, moved, func(ctx context.Context, one *member) error {
		patch, err := patchOf(map[string]any{"metadata": map[string]any{"labels": one.labels}})
		if err != nil {
			return err
		}
		return s.hub.client.Patch(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: one.name}}, patch)
	})
	if err != nil {
		return err
	}
	return s.rolledOut(ctx, "many-", s.placements, "")
}

// silence stops all agents, and waits until the hub calls their clusters unknown.
func (s *simulation) silence(ctx context.Context, _ *measured) error {
	s.silent.Store(true)
	s.stopAgents()
	return s.clusterList.await(ctx, s.patience+grace*s.lease, "clusters are unknown", s.clusters, unknown)
}

// grace is after how many periods without a heartbeat a cluster is unknown.
const grace = 5

// comeBack starts the agents again, all at once.
func (s *simulation) comeBack(ctx context.Context, _ *measured) error {
	for _, one := range s.members {
		one.stop()
		s.start(ctx, one)
	}
	if err := s.allAvailable(ctx); err != nil {
		return err
	}
	s.silent.Store(false)
	return nil
}

// addOns is the benchmark of add-ons, with the agents of the fleet in place of played ones.
func (s *simulation) addOns() *addOnBench {
	return &addOnBench{server: s.hub, fleet: s.clusters, each: 1}
}

func (s *simulation) installAddOn(ctx context.Context, _ *measured) error {
	all := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: addOnNamespace, Name: "default"}}
	if err := s.hub.client.Create(ctx, all); err != nil {
		return err
	}
	return s.addOns().install(ctx)
}

func (s *simulation) configureAddOn(ctx context.Context, _ *measured) error {
	return s.addOns().configure(ctx)
}

func (s *simulation) removeAddOn(ctx context.Context, _ *measured) error {
	return s.addOns().remove(ctx)
}
