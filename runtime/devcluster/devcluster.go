// Package devcluster runs a managed cluster for laptops and tests in one
// process: a Kubernetes API server with the ordinary APIs, the controllers of
// deployments, replica sets and jobs, and a simulator in the place of nodes.
//
// Nothing runs in its pods; the simulator only lets them report that something
// does. There is one exception: a pod of the klusterlet starts a real agent
// inside this process, with the pod's own identity and files. So a dev cluster
// joins a hub in the way that a real one does, by having the agent installed
// through its API.
package devcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// settleTimeout is how much longer a cluster may take to get ready when it has to
// stop before it is.
const settleTimeout = 10 * time.Second

// Options say what cluster to run.
type Options struct {
	// DataDir keeps the cluster's state. It is made when it is not there.
	DataDir string
	// BindAddress is the address to listen on, 127.0.0.1 by default.
	BindAddress net.IP
	// SecurePort is the port to listen on; 0 takes a free one.
	SecurePort int
	// Name is what certificates and logs call the cluster; see DefaultName.
	Name string

	// RunAgent runs the agent of a pod until ctx ends. Without it a klusterlet's
	// pod is simulated like any other.
	RunAgent func(ctx context.Context, pod AgentPod) error
	// Log is the program's logger, to which the cluster's name is added; nothing
	// is logged by default.
	Log *slog.Logger
	// Clock is the real one by default.
	Clock clock.WithTicker
}

// AgentPod is what an agent needs to know of the pod that it runs for.
type AgentPod struct {
	// Args are what follows `muster agent` in the pod. Who may create pods chooses
	// them.
	Args []string
	// Config reaches the cluster as the pod's service account.
	Config *rest.Config
	// File says where a file of the pod is on this machine. It fails for all that
	// is in no Secret that the pod mounts.
	File func(name string) (string, error)
	// Ready says that the agent is ready, as its readiness probe would find out.
	Ready func()
	// Log is the dev cluster's logger, with the pod's name.
	Log *slog.Logger
}

func (o *Options) complete() error {
	if o.DataDir == "" {
		return errors.New("a dev cluster needs a folder for its state: name one with --data-dir")
	}
	if o.Name == "" {
		o.Name = DefaultName(o.DataDir)
	}
	if reasons := validation.IsDNS1123Label(o.Name); len(reasons) > 0 {
		return fmt.Errorf("--name %q cannot be the name of a cluster: %s", o.Name, strings.Join(reasons, "; "))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = o.Log.With("devcluster", o.Name)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return nil
}

// DefaultName is what a dev cluster is called when nothing else is said: as its
// folder where that is a name that certificates can hold, else "devcluster".
func DefaultName(dataDir string) string {
	if abs, err := filepath.Abs(dataDir); err == nil && len(validation.IsDNS1123Label(filepath.Base(abs))) == 0 {
		return filepath.Base(abs)
	}
	return "devcluster"
}

// Cluster is a running dev cluster.
type Cluster struct {
	// URL is where clients reach it.
	URL string
	// Kubeconfig is the administrator's kubeconfig file.
	Kubeconfig string

	server *controlplane.Server
	stop   context.CancelFunc
	done   chan struct{}
	err    error

	mu     sync.Mutex
	failed error // of the controllers
}

// Start runs a dev cluster until ctx ends or Stop is called, and returns when
// it is ready.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	dir, err := datadir.Open(o.DataDir, "muster "+version.Version())
	if err != nil {
		return nil, err
	}
	server, err := controlplane.Start(ctx, controlplane.Options{
		Name:        o.Name,
		Flavour:     controlplane.Full,
		Dir:         dir,
		BindAddress: o.BindAddress,
		SecurePort:  o.SecurePort,
	})
	if err != nil {
		dir.Close()
		return nil, err
	}
	runCtx, stop := context.WithCancel(ctx)
	c := &Cluster{URL: server.URL, Kubeconfig: server.Kubeconfig, server: server, stop: stop, done: make(chan struct{})}
	controllers, err := c.controllers(runCtx, o, dir)
	if err != nil {
		stop()
		err = errors.Join(err, server.Stop())
		dir.Close()
		return nil, err
	}
	settled := make(chan struct{})
	go func() {
		defer close(c.done)
		defer dir.Close()
		select {
		case <-runCtx.Done():
		case <-server.Done():
			stop()
		}
		controllers.Wait()
		<-settled
		c.err = server.Stop()
		if c.err == nil { // else why the server stopped is why all else did
			c.err = c.failed
		}
	}()
	err = waitSettled(ctx, server)
	close(settled)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait until the dev cluster is ready: %w", err), c.Stop())
	}
	return c, nil
}

// waitSettled returns when the server is ready. It does not return at once when
// ctx ends: an API server that is stopped while its start hooks run makes the
// whole process exit with a failure.
func waitSettled(ctx context.Context, server *controlplane.Server) error {
	waitCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		late, stop := context.WithTimeout(waitCtx, settleTimeout)
		defer stop()
		<-late.Done()
		cancel()
	})()
	return server.WaitReady(waitCtx)
}

// Done is closed when the cluster has stopped and all its state is on the disk.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Stop ends the cluster, waits until it has, and returns why it stopped when
// that was not because of Stop or the context's end.
func (c *Cluster) Stop() error {
	c.stop()
	<-c.done
	return c.err
}

// controllers starts everything beside the API server.
func (c *Cluster) controllers(ctx context.Context, o Options, dir *datadir.Dir) (*sync.WaitGroup, error) {
	config := c.server.RESTConfig("muster-devcluster")
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("start the dev cluster's controllers: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	running, err := workloadControllers(ctx, client, factory)
	if err != nil {
		return nil, fmt.Errorf("start the dev cluster's controllers: %w", err)
	}
	running = append(running, quotaController(client, config, factory))
	agents, err := newAgents(agentOptions{
		run:    o.RunAgent,
		clock:  o.Clock,
		client: client,
		log:    o.Log,
		dir:    dir.Path("pods"),
		server: rest.Config{Host: c.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: c.server.CAData}},
	})
	if err != nil {
		return nil, err
	}
	simulator, err := newSimulator(client, factory, agents, o.Clock, o.Log)
	if err != nil {
		return nil, fmt.Errorf("start the simulator of pods: %w", err)
	}

	group := &sync.WaitGroup{}
	group.Go(func() { c.fail(c.server.RunControllers(ctx, controlplane.ControllerOptions{})) })
	factory.Start(ctx.Done())
	group.Go(func() { c.fail(simulator.Run(ctx)) })
	group.Go(func() { controlplane.RunAll(ctx, running) })
	return group, nil
}

// fail stops the cluster when a controller has returned an error.
func (c *Cluster) fail(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	c.failed = errors.Join(c.failed, err)
	c.mu.Unlock()
	c.stop()
}

const (
	quotaWorkers = 2
	// quotaResync is how often the use of all quotas is counted once more, and
	// quotaDiscovery how often new kinds are looked for.
	quotaResync    = 5 * time.Minute
	quotaDiscovery = 30 * time.Second
)

// quotaController is Kubernetes' own controller that counts what is used of resource
// quotas, without which an API server takes no notice of them. It watches every kind
// that can be counted, so it starts with the first quota: most dev clusters have
// none.
func quotaController(client kubernetes.Interface, config *rest.Config, f informers.SharedInformerFactory) controlplane.Controller {
	quotas := f.Core().V1().ResourceQuotas().Informer()
	return func(ctx context.Context) {
		first := make(chan struct{}, 1)
		if _, err := quotas.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			select {
			case first <- struct{}{}:
			default:
			}
		}}); err != nil {
			return // the informer has been stopped
		}
		select {
		case <-ctx.Done():
			return
		case <-first:
		}
		if err := runQuotas(ctx, client, config); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Resource quotas are not counted")
		}
	}
}

// runQuotas counts what is used of quotas until ctx ends.
func runQuotas(ctx context.Context, client kubernetes.Interface, config *rest.Config) error {
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	f := informers.NewSharedInformerFactory(client, 0)
	evaluators, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(f.ForResource), f)
	if err != nil {
		return fmt.Errorf("prepare the evaluators of quotas: %w", err)
	}
	started := make(chan struct{})
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     f.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(quotaResync),
		InformerFactory:           informerfactory.NewInformerFactory(f, metadatainformer.NewSharedInformerFactory(objects, 0)),
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(0),
		DiscoveryFunc:             client.Discovery().ServerPreferredNamespacedResources,
		IgnoredResourcesFunc:      evaluators.IgnoredResources,
		InformersStarted:          started,
		Registry:                  generic.NewRegistry(evaluators.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return fmt.Errorf("make the controller of quotas: %w", err)
	}
	f.Start(ctx.Done())
	close(started)
	controlplane.RunAll(ctx, []controlplane.Controller{
		func(ctx context.Context) { c.Run(ctx, quotaWorkers) },
		func(ctx context.Context) {
			c.Sync(ctx, client.Discovery().ServerPreferredNamespacedResources, quotaDiscovery)
		},
	})
	return nil
}

const (
	workloadWorkers = 2

	// burstReplicas is how many pods a replica set makes or deletes at a time.
	burstReplicas = 500
)

// workloadControllers are Kubernetes' own controllers that turn workloads into
// pods. Their informers are added to f, which the caller starts.
func workloadControllers(ctx context.Context, client kubernetes.Interface, f informers.SharedInformerFactory) ([]controlplane.Controller, error) {
	pods, replicaSets := f.Core().V1().Pods(), f.Apps().V1().ReplicaSets()
	deployments, err := deployment.NewDeploymentController(ctx, f.Apps().V1().Deployments(), replicaSets, pods, client)
	if err != nil {
		return nil, err
	}
	// Jobs do not take part in gang scheduling here, so no informers for it.
	jobs, err := job.NewController(ctx, client, pods, f.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	sets := replicaset.NewReplicaSetController(ctx, replicaSets, pods, client, burstReplicas)
	return []controlplane.Controller{
		func(ctx context.Context) { deployments.Run(ctx, workloadWorkers) },
		func(ctx context.Context) { sets.Run(ctx, workloadWorkers) },
		func(ctx context.Context) { jobs.Run(ctx, workloadWorkers) },
	}, nil
}
