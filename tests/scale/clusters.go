package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// acceptClusters creates accepted clusters and waits until the hub has granted
// each its rights and its lease. It prints what that took beyond the creation.
func acceptClusters(ctx context.Context, h *process, config *rest.Config, c client.WithWatch, prefix string, n int) error {
	before, err := requests(ctx, config)
	if err != nil {
		return err
	}
	cpu, begin := h.cpu(), time.Now()
	accepted, err := c.Watch(ctx, &clusterv1.ManagedClusterList{})
	if err != nil {
		return err
	}
	defer accepted.Stop()
	leases, err := c.Watch(ctx, &coordinationv1.LeaseList{}, client.HasLabels{cluster.NameLabel})
	if err != nil {
		return err
	}
	defer leases.Stop()
	creates, createCtx := errgroup.WithContext(ctx)
	creates.SetLimit(10) // as many as Terraform makes at a time
	go func() {
		for i := range n {
			creates.Go(func() error {
				return c.Create(createCtx, &clusterv1.ManagedCluster{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)},
					// Their agents are played, and give heartbeats only where these are measured.
					Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true), LeaseDurationSeconds: 3600},
				})
			})
		}
	}()
	granted, leased := map[string]bool{}, map[string]bool{}
	for len(granted) < n || len(leased) < n {
		select {
		case e := <-accepted.ResultChan():
			if mc, ok := e.Object.(*clusterv1.ManagedCluster); ok && strings.HasPrefix(mc.Name, prefix) && meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
				granted[mc.Name] = true
			}
		case e := <-leases.ResultChan():
			if l, ok := e.Object.(*coordinationv1.Lease); ok && strings.HasPrefix(l.Namespace, prefix) {
				leased[l.Namespace] = true
			}
		case <-createCtx.Done():
			return creates.Wait()
		case <-time.After(time.Minute):
			return fmt.Errorf("%d of %d clusters are accepted and %d have a lease, and nothing has happened for a minute", len(granted), n, len(leased))
		}
	}
	took, used := time.Since(begin), h.cpu()-cpu
	time.Sleep(2 * time.Second) // what is still to come belongs to the clusters too
	after, err := requests(ctx, config)
	if err != nil {
		return err
	}
	writes := after.writes - before.writes - float64(n) // the creation itself is the user's
	reads := after.reads - before.reads - 1             // and so is the reading of the counters
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts\n", "requests per accepted cluster", writes/float64(n), reads/float64(n), (after.conflicts-before.conflicts)/float64(n))
	fmt.Printf("%-48s %8.1f /s, %.3f CPU s each\n", fmt.Sprintf("%d clusters accepted", n), float64(n)/took.Seconds(), used.Seconds()/float64(n))
	return nil
}
