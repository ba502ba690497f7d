package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// agentBench measures real agents, which all report on one dev cluster, in namespaces of
// their own.
type agentBench struct {
	hub, local   *server
	program, dir string // of the agents, and for their files
	agent        process
	name         string // of the agent's cluster
	// health is the agent's health address, and readRate how many reads a second the hub
	// makes for itself: Kubernetes' mutating admission policies read every five seconds
	// which schemas there are (GET /openapi/v3), and the garbage collector every half a
	// minute which kinds (GET /api and /apis). Both intervals are constants there or here,
	// and neither grows with the fleet.
	health   string
	readRate float64
}

// joins lets agents join, one after the other, and prints what each costs the hub: from
// its first request until it is available and untainted.
func (b *agentBench) joins(ctx context.Context) error {
	const n = 5
	before, err := b.hub.used(ctx)
	if err != nil {
		return err
	}
	var took time.Duration
	for i := range n {
		ready, err := b.join(ctx, fmt.Sprintf("joined-%d", i))
		if err != nil {
			return err
		}
		_ = b.agent.Kill()
		took += ready
	}
	after, err := b.hub.used(ctx)
	if err != nil {
		return err
	}
	after.since(before, 2*n).print("joined cluster, agent's included", n) // the cluster and its token are the user's
	say("from the agent's start to available", "%8.2f s", took.Seconds()/n)
	return nil
}

// join starts the agent of a cluster, and returns how long it takes until the cluster is
// available.
func (b *agentBench) join(ctx context.Context, name string, flags ...string) (ready time.Duration, err error) {
	token, err := bootstraptoken.New(cluster.BoundBootstrapGroup(name), "", time.Time{})
	if err != nil {
		return 0, err
	}
	for _, o := range []client.Object{token.Object(), acceptedCluster(name, 0)} {
		if err := b.hub.client.Create(ctx, o); err != nil {
			return 0, err
		}
	}
	content, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Server: b.hub.config.Host, CAData: b.hub.config.CAData, Token: token.String(),
	}.YAML()
	if err != nil {
		return 0, err
	}
	bootstrap := filepath.Join(b.dir, name+".kubeconfig")
	if err := os.WriteFile(bootstrap, content, 0o600); err != nil {
		return 0, err
	}
	events, err := b.hub.client.Watch(ctx, &clusterv1.ManagedClusterList{}, client.MatchingFields{"metadata.name": name})
	if err != nil {
		return 0, err
	}
	defer events.Stop()
	begin := time.Now()
	agent, err := testhub.StartAgent(b.program, name, bootstrap, b.local.Kubeconfig, append(flags, "--namespace", name)...)
	if err != nil {
		return 0, err
	}
	b.agent, b.name = process{agent}, name
	err = await(ctx, time.Minute, func(o runtime.Object) bool {
		mc, ok := o.(*clusterv1.ManagedCluster)
		return ok && len(mc.Spec.Taints) == 0 && meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable)
	}, events)
	if err != nil {
		_ = agent.Kill()
		return 0, fmt.Errorf("wait for the cluster %s to become available: %w", name, err)
	}
	return time.Since(begin), nil
}

// acceptedCluster is a cluster that the hub accepts.
func acceptedCluster(name string, leaseSeconds int32) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true), LeaseDurationSeconds: leaseSeconds},
	}
}

// steadyState measures what a cluster costs the hub in the years after its
// join: each heartbeat, each renewal of its certificate, each change of its
// status, and nothing at all.
func (b *agentBench) steadyState(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.health = l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	if _, err := b.join(ctx, "steady", "--health-address", b.health); err != nil {
		return err
	}
	defer func() { _ = b.agent.Kill() }()
	mw, err := b.newWork("steady", 1) // as almost all clusters have
	if err != nil {
		return err
	}
	if err := b.hub.client.Create(ctx, mw); err != nil {
		return err
	}
	err = eventually(func() (bool, error) {
		err := b.hub.client.Get(ctx, client.ObjectKeyFromObject(mw), mw)
		return meta.IsStatusConditionTrue(mw.Status.Conditions, work.ConditionAvailable), err
	})
	if err != nil {
		return err
	}
	return errors.Join(b.rest(ctx, 30*time.Second), b.heartbeats(ctx, 20),
		b.cost(ctx, "status change", 10, func(i int) error { return b.changeStatus(ctx, i) }),
		b.cost(ctx, "renewal of a certificate", 5, func(int) error { return b.renew(ctx) }))
}

// cost prints what n repetitions of something cost the hub each, beyond what it reads at
// rest.
func (b *agentBench) cost(ctx context.Context, what string, n int, do func(i int) error) error {
	before, err := b.hub.settled(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := range n {
		if err := do(i); err != nil {
			return fmt.Errorf("measure a %s: %w", what, err)
		}
	}
	after, err := b.hub.settled(ctx)
	if err != nil {
		return err
	}
	b.printBeyondRest(what, after.since(before, 0), time.Since(begin), float64(n))
	return nil
}

func (b *agentBench) printBeyondRest(what string, cost usage, took time.Duration, n float64) {
	reads := cost.reads
	cost.reads = max(0, reads-b.readRate*took.Seconds())
	cost.print(what, n)
	if b.readRate == 0 { // the first measurement is that of the rest, and prints all its reads
		b.readRate = reads / took.Seconds()
	}
}

// rest lets the cluster be for a while that is too short for a heartbeat, and
// long enough for everything else that is done every few seconds.
func (b *agentBench) rest(ctx context.Context, d time.Duration) error {
	return b.cost(ctx, fmt.Sprintf("%s of rest between heartbeats", d), 1, func(int) error {
		held, err := b.agent.observe(d)
		say("the agent's memory then, with one work", "%s", held)
		return err
	})
}

// heartbeats makes the cluster give them every second.
func (b *agentBench) heartbeats(ctx context.Context, n float64) error {
	if err := b.pace(ctx, 1); err != nil {
		return err
	}
	first, err := b.beats()
	if err != nil {
		return err
	}
	before, err := b.hub.used(ctx)
	if err != nil {
		return err
	}
	begin, last := time.Now(), first
	for last < first+n {
		time.Sleep(100 * time.Millisecond)
		if last, err = b.beats(); err != nil {
			return err
		}
	}
	after, err := b.hub.used(ctx)
	if err != nil {
		return err
	}
	b.printBeyondRest("heartbeat", after.since(before, 0), time.Since(begin), last-first)
	return b.pace(ctx, 60)
}

func (b *agentBench) pace(ctx context.Context, seconds int) error {
	patch := fmt.Appendf(nil, `{"spec":{"leaseDurationSeconds":%d}}`, seconds)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: b.name}}
	if err := b.hub.client.Patch(ctx, mc, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	time.Sleep(quiet) // for all that follows from the change itself
	return nil
}

// beats is how many heartbeats the agent has given.
func (b *agentBench) beats() (float64, error) {
	response, err := http.Get("http://" + b.health + "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	all, err := counters(response.Body, "muster_agent_heartbeats_total")
	return all[request{}], err
}

// changeStatus adds a claim to the cluster.
func (b *agentBench) changeStatus(ctx context.Context, i int) error {
	claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%d", i)}}
	claim.Spec.Value = "x"
	if err := b.local.client.Create(ctx, claim); err != nil {
		return err
	}
	return eventually(func() (bool, error) {
		mc := &clusterv1.ManagedCluster{}
		b.hub.ownReads++
		err := b.hub.client.Get(ctx, types.NamespacedName{Name: b.name}, mc)
		return len(mc.Status.ClusterClaims) > i, err
	})
}

// renew makes the agent lose its certificate, so that it asks for another
// one with the one that it still has in memory, as it does in good time before
// a certificate expires.
func (b *agentBench) renew(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: cluster.HubKubeconfigSecret}}
	if err := b.local.client.Delete(ctx, secret); err != nil {
		return err
	}
	err := eventually(func() (bool, error) {
		err := b.local.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return len(secret.Data[cluster.TLSCertKey]) > 0, err
	})
	time.Sleep(quiet) // until the agent has reported it
	return err
}

func eventually(check func() (bool, error)) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if done, err := check(); done || err != nil {
			return err
		}
	}
	return errors.New("it has not happened within a minute")
}
