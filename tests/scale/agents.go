package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// joinClusters lets real agents join, one after the other, and prints what each
// costs the hub: from its first request until it is available and untainted.
// They all report on one dev cluster, in namespaces of their own.
func joinClusters(ctx context.Context, program, dir string, config *rest.Config, c client.WithWatch, managed *process, n int) error {
	before, err := requests(ctx, config)
	if err != nil {
		return err
	}
	var took time.Duration
	for i := range n {
		agent, err := joinCluster(ctx, program, dir, config, managed.kubeconfig, c, fmt.Sprintf("joined-%d", i))
		if err != nil {
			return err
		}
		agent.kill()
		took += agent.ready
	}
	after, err := requests(ctx, config)
	if err != nil {
		return err
	}
	// The cluster and its token are the user's writes.
	writes, reads := after.writes-before.writes-2*float64(n), after.reads-before.reads-1
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts\n", "requests per joined cluster, agent's included", writes/float64(n), reads/float64(n), (after.conflicts-before.conflicts)/float64(n))
	fmt.Printf("%-48s %8.2f s\n", "from the agent's start to available", took.Seconds()/float64(n))
	return nil
}

// joinCluster starts an agent and returns it when its cluster is available.
func joinCluster(ctx context.Context, program, dir string, config *rest.Config, managed string, c client.WithWatch, name string, flags ...string) (*process, error) {
	id := fmt.Sprintf("%06d", time.Now().UnixNano()%1_000_000)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "auth-extra-groups": cluster.BoundBootstrapGroup(name),
		},
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}
	for _, o := range []client.Object{secret, mc} {
		if err := c.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	content, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: config.Host, CAData: config.CAData, Token: id + ".0123456789abcdef"}.YAML()
	if err != nil {
		return nil, err
	}
	bootstrap := filepath.Join(dir, name+".kubeconfig")
	if err := os.WriteFile(bootstrap, content, 0o600); err != nil {
		return nil, err
	}
	events, err := c.Watch(ctx, &clusterv1.ManagedClusterList{}, client.MatchingFields{"metadata.name": name})
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	agent := &process{cmd: exec.Command(program, "agent", "--cluster-name", name, "--bootstrap-kubeconfig", bootstrap, "--kubeconfig", managed, "--namespace", name)}
	agent.cmd.Args = append(agent.cmd.Args, flags...)
	begin := time.Now()
	if err := agent.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	for {
		select {
		case e := <-events.ResultChan():
			mc, ok := e.Object.(*clusterv1.ManagedCluster)
			if ok && meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable) && len(mc.Spec.Taints) == 0 {
				agent.ready = time.Since(begin)
				return agent, nil
			}
		case <-time.After(time.Minute):
			agent.kill()
			return nil, fmt.Errorf("the cluster %s has not become available within a minute", name)
		}
	}
}

// quiet is for how long nothing may be written before what is measured next
// counts as begun, or ended.
const quiet = 2 * time.Second

// steadyState measures what a cluster costs the hub in the years after its
// join: each heartbeat, each renewal of its certificate, each change of its
// status, and nothing at all.
func steadyState(ctx context.Context, program, dir string, config *rest.Config, c client.WithWatch, managed *process) error {
	const name = "steady"
	health, err := freeAddress()
	if err != nil {
		return err
	}
	agent, err := joinCluster(ctx, program, dir, config, managed.kubeconfig, c, name, "--health-address", health)
	if err != nil {
		return err
	}
	defer agent.kill()
	local, err := localClient(managed.kubeconfig)
	if err != nil {
		return err
	}
	s := steady{ctx: ctx, config: config, hub: c, local: local, name: name, health: health, agent: agent}
	if err := s.oneWork(); err != nil {
		return err
	}
	return errors.Join(s.rest(30*time.Second), s.heartbeats(20), s.statusChanges(10), s.renewals(5))
}

type steady struct {
	// readRate is how many reads a second the hub makes for itself. Kubernetes'
	// mutating admission policies read every five seconds which schemas there are
	// (GET /openapi/v3), and the garbage collector every half a minute which kinds
	// (GET /api and /apis). Both intervals are constants there or here, and neither
	// grows with the fleet.
	readRate     float64
	ctx          context.Context
	config       *rest.Config
	hub, local   client.Client
	name, health string
	agent        *process
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func localClient(kubeconfig string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
}

// settle returns the counts once nothing is written any longer. It subtracts
// what reading them costs.
func (s *steady) settle() (counts, error) {
	last, err := requests(s.ctx, s.config)
	for reads := 1.0; err == nil; reads++ {
		time.Sleep(quiet)
		var now counts
		now, err = requests(s.ctx, s.config)
		if now.writes == last.writes {
			now.reads -= reads
			return now, err
		}
		last = now
	}
	return counts{}, err
}

// cost prints what n repetitions of something cost each, beyond what the hub
// reads at rest. own of the writes are the benchmark's, and as many of the reads
// as do returns.
func (s *steady) cost(what string, n float64, own float64, do func() (reads float64, err error)) error {
	before, err := s.settle()
	if err != nil {
		return err
	}
	begin := time.Now()
	ownReads, err := do()
	if err != nil {
		return fmt.Errorf("measure %s: %w", what, err)
	}
	after, err := s.settle()
	if err != nil {
		return err
	}
	reads := after.reads - before.reads - ownReads
	took := time.Since(begin).Seconds()
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts\n", "requests per "+what,
		(after.writes-before.writes-own)/n, max(0, reads-s.readRate*took)/n, (after.conflicts-before.conflicts)/n)
	if s.readRate == 0 { // the first measurement is that of the rest, and prints all its reads
		s.readRate = reads / took
	}
	return nil
}

// oneWork gives the cluster a work of one object, as almost all clusters have.
func (s *steady) oneWork() error {
	w := works{name: s.name}
	mw, err := w.newWork("steady", 1)
	if err != nil {
		return err
	}
	if err := s.hub.Create(s.ctx, mw); err != nil {
		return err
	}
	return eventually(func() (bool, error) {
		err := s.hub.Get(s.ctx, client.ObjectKeyFromObject(mw), mw)
		return meta.IsStatusConditionTrue(mw.Status.Conditions, work.ConditionAvailable), err
	})
}

// rest lets the cluster be for a while that is too short for a heartbeat, and
// long enough for everything else that is done every few seconds.
func (s *steady) rest(d time.Duration) error {
	return s.cost(fmt.Sprintf("%s of rest between heartbeats", d), 1, 0, func() (float64, error) {
		held, err := s.agent.observe(d)
		fmt.Printf("%-48s %s\n", "the agent's memory then, with one work", held)
		return 0, err
	})
}

// heartbeats makes the cluster give them every second.
func (s *steady) heartbeats(n int) error {
	if err := s.pace(1); err != nil {
		return err
	}
	first, err := s.beats()
	if err != nil {
		return err
	}
	before, err := requests(s.ctx, s.config)
	if err != nil {
		return err
	}
	begin := time.Now()
	last := first
	for last < first+n {
		time.Sleep(100 * time.Millisecond)
		if last, err = s.beats(); err != nil {
			return err
		}
	}
	after, err := requests(s.ctx, s.config)
	if err != nil {
		return err
	}
	reads := max(0, after.reads-before.reads-1-s.readRate*time.Since(begin).Seconds())
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts\n", "requests per heartbeat",
		(after.writes-before.writes)/float64(last-first), reads/float64(last-first), (after.conflicts-before.conflicts)/float64(last-first))
	return s.pace(60)
}

func (s *steady) pace(seconds int) error {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	patch := fmt.Appendf(nil, `{"spec":{"leaseDurationSeconds":%d}}`, seconds)
	if err := s.hub.Patch(s.ctx, mc, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	time.Sleep(quiet) // for all that follows from the change itself
	return nil
}

// beats is how many heartbeats the agent has given.
func (s *steady) beats() (int, error) {
	response, err := http.Get("http://" + s.health + "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "muster_agent_heartbeats_total "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, errors.New("the agent does not count its heartbeats")
}

// statusChanges adds claims to the cluster, one after the other.
func (s *steady) statusChanges(n int) error {
	return s.cost("status change", float64(n), 0, func() (reads float64, err error) {
		for i := range n {
			claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%d", i)}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "x"}}
			if err := s.local.Create(s.ctx, claim); err != nil {
				return reads, err
			}
			err := eventually(func() (bool, error) {
				mc := &clusterv1.ManagedCluster{}
				reads++
				err := s.hub.Get(s.ctx, types.NamespacedName{Name: s.name}, mc)
				return len(mc.Status.ClusterClaims) > i, err
			})
			if err != nil {
				return reads, err
			}
		}
		return reads, nil
	})
}

// renewals makes the agent lose its certificate, so that it asks for another
// one with the one that it still has in memory, as it does in good time before
// a certificate expires.
func (s *steady) renewals(n int) error {
	return s.cost("renewal of a certificate", float64(n), 0, func() (float64, error) {
		for range n {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: cluster.HubKubeconfigSecret}}
			if err := s.local.Delete(s.ctx, secret); err != nil {
				return 0, err
			}
			err := eventually(func() (bool, error) {
				err := s.local.Get(s.ctx, client.ObjectKeyFromObject(secret), secret)
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				return len(secret.Data[cluster.TLSCertKey]) > 0, err
			})
			if err != nil {
				return 0, err
			}
			time.Sleep(quiet) // until the agent has reported it
		}
		return 0, nil
	})
}

func eventually(check func() (bool, error)) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if done, err := check(); done || err != nil {
			return err
		}
	}
	return errors.New("it has not happened within a minute")
}
