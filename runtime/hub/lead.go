package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/snapshot"
)

// stopTimeout is how long the controllers may take to end.
const stopTimeout = 3 * time.Second

// runControllers runs Kubernetes' own controllers and the hub's until ctx ends.
// With an etcd of its own the hub is alone; with a shared one its replicas elect
// the one that runs them. It calls started once the controllers have seen all
// objects that they watch, or take part in the election.
func runControllers(ctx context.Context, o Options, server *controlplane.Server, started func()) error {
	election, err := elect(o, server)
	if err != nil {
		return err
	}
	m, err := manager.New(server.RESTConfig("muster-hub"), manager.Options{Log: o.Log, Election: election})
	if err != nil {
		return err
	}
	core := ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		// Nothing runs pods here, so the namespaces of clusters need no service
		// accounts: two writes less for each cluster.
		return server.RunControllers(ctx, controlplane.ControllerOptions{PlainNamespaces: "!" + cluster.NameLabel, ExternalSigner: o.ExternalSigner})
	})
	if err := m.Add(core); err != nil {
		return err
	}
	all := o.controllers(server.CAData)
	if all.HubMade, err = o.newMaker(server, server.RESTConfig("muster-hub")); err != nil {
		return err
	}
	if err := controllers.Register(m, all); err != nil {
		return fmt.Errorf("register the controllers: %w", err)
	}
	server.HandlePath(hubinfo.SnapshotPath, snapshot.NewHandler(m.GetClient(), o.Clock))
	err = m.Run(ctx, started)
	if errors.Is(err, manager.ErrElectionLost) {
		return errors.New("this replica lost the election of the leader, as it could not reach etcd in time: start it again")
	}
	return err
}

// elect is how this replica takes part in the election of the leader; nil when
// the hub is alone.
func elect(o Options, server *controlplane.Server) (*manager.Election, error) {
	if len(o.EtcdServers) == 0 {
		return nil, nil
	}
	clientset, err := kubernetes.NewForConfig(server.RESTConfig("muster-leader-election"))
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this replica: %w", err)
	}
	// Two containers may have the same host name and the same process id.
	identity := resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("%s_%s", host, uuid.NewUUID())}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, cluster.HubNamespace, "muster-hub", nil, clientset.CoordinationV1(), identity)
	if err != nil {
		return nil, err
	}
	return &manager.Election{Lock: lock}, nil
}

// within runs f and returns its error. Once ctx has ended it waits for f no longer
// than stopTimeout, or until what f needs is gone, and returns nil then: some of
// what runs in f may be busy with a computation that ignores contexts.
func within(ctx context.Context, gone <-chan struct{}, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-gone:
		return nil
	case <-time.After(stopTimeout):
		return nil
	}
}
